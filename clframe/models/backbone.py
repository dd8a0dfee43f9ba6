"""Any timm backbone by name, as features under our head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from clframe.errors import SettingError, nearest
from clframe.hookspecs import hookimpl
from clframe.models.classifier import Classifier

if TYPE_CHECKING:
    from clframe.registry import Registry


def is_backbone(name: str) -> bool:
    """Whether timm has a model of that name."""
    import timm

    return name in timm.list_models()


def backbone(
    input_shape: tuple[int, ...],
    n_outputs: int,
    backbone: str = "resnet18",
    pretrained: bool = False,
) -> Classifier:
    """A timm backbone by its name, with a fresh head (``model=resnet18`` is short for it).

    Args:
        input_shape: Channels, height and width; any number of channels.
        n_outputs: Output units.
        backbone: timm's name.
        pretrained: Load timm's pretrained weights (needs the network or timm's cache).
    """
    import timm

    if not is_backbone(backbone):
        raise SettingError(
            f"model.backbone: timm has no model '{backbone}'; "
            f"{nearest(backbone, timm.list_models()).split(', ')[0]}"
        )
    if len(input_shape) != 3:
        raise SettingError(
            f"model '{backbone}' takes images (channels, height, width), got {input_shape}"
        )
    options: dict[str, Any] = {
        "in_chans": input_shape[0],
        "num_classes": 0,
        "pretrained": pretrained,
    }
    try:
        try:
            body: nn.Module = timm.create_model(backbone, img_size=input_shape[1:], **options)
        except TypeError:  # most convolutional networks take any size and have no such argument
            body = timm.create_model(backbone, **options)
    except Exception as error:
        raise SettingError(
            f"model '{backbone}' cannot be made for inputs of shape {input_shape}: {error}"
        ) from error
    try:
        with torch.no_grad():
            body.eval()
            width = body(torch.zeros(1, *input_shape)).shape[1]
            body.train()
    except Exception as error:
        raise SettingError(
            f"model '{backbone}' does not take inputs of shape {input_shape}: {error}"
        ) from error
    return Classifier(body, width, n_outputs)


@hookimpl
def register(registry: Registry) -> None:
    """Add the model."""
    registry.add("model", "timm", backbone)
