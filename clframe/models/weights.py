"""Weights of a network from a user's file: safetensors, or torch's format without code."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clframe.errors import SettingError

_NESTED = ("state_dict", "model", "state_dict_ema", "model_ema")
"""Keys under which training programs store the weights in a larger file."""
_HEADS = ("head.", "head_dist.", "fc.", "classifier.", "fc_norm.head.")
"""Prefixes of a classifier's layers, which a network without a head ignores."""


def read_weights(path: str | Path, setting: str = "model.weights") -> dict[str, Tensor]:
    """Return the tensors of a file by name.

    Args:
        path: A file of safetensors (``*.safetensors``), or one that ``torch.load`` reads with
            ``weights_only=True``.
        setting: The setting with the file, for the message.

    Raises:
        SettingError: The file is missing, damaged or holds something else.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise SettingError(f"{setting}: there is no file '{file}'")
    content: Any
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load

            content = load(file.read_bytes())
        else:
            content = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, ValueError, RuntimeError, EOFError, KeyError, pickle.UnpicklingError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SettingError(
            f"{setting}: '{file}' is neither safetensors nor a file of only tensors for "
            f"torch.load(weights_only=True): {reason[:200]}"
        ) from error
    except Exception as error:  # safetensors has its own errors
        raise SettingError(f"{setting}: '{file}' is damaged: {str(error)[:200]}") from error
    for key in _NESTED:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping) or not all(isinstance(v, Tensor) for v in content.values()):
        raise SettingError(f"{setting}: '{file}' does not hold tensors by name")
    return {str(name).removeprefix("module."): value for name, value in content.items()}


def put_weights(network: nn.Module, path: str | Path, setting: str = "model.weights") -> None:
    """Load a file's weights into a network, ignoring those of a classifier.

    Raises:
        SettingError: They are another network's; the message names the first difference.
    """
    stored = read_weights(path, setting)
    expected = network.state_dict()
    for name, tensor in expected.items():
        if name not in stored:
            raise SettingError(
                f"{setting}: '{path}' has no weights '{name}' ({list(tensor.shape)} here); it is "
                "from another network"
            )
        if stored[name].shape != tensor.shape:
            raise SettingError(
                f"{setting}: '{name}' is {list(stored[name].shape)} in '{path}' and "
                f"{list(tensor.shape)} in this network; the file is from another network, or one "
                "for another image size"
            )
    for name in stored:
        if name not in expected and not name.startswith(_HEADS):
            raise SettingError(
                f"{setting}: '{path}' has weights '{name}' ({list(stored[name].shape)}), which "
                "this network lacks; it is from another network"
            )
    with torch.no_grad():
        network.load_state_dict({name: stored[name].to(t) for name, t in expected.items()})
