"""Weights of a network from a file of the user's: safetensors, or torch's without code in it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clframe.errors import SettingError

_NESTED = ("state_dict", "model", "state_dict_ema", "model_ema")
"""Under which training programs keep the weights in a larger file."""
_HEADS = ("head.", "head_dist.", "fc.", "classifier.", "fc_norm.head.")
"""Layers of a classifier, which a network without one has no use for."""


def read_weights(path: str | Path, setting: str = "model.weights") -> dict[str, Tensor]:
    """The tensors of a file by their names.

    Args:
        path: A file of safetensors (``*.safetensors``), or one that ``torch.load`` reads with
            ``weights_only=True``.
        setting: What named the file, for the message.

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
            f"{setting}: '{file}' is neither safetensors nor a file of tensors alone that "
            f"torch.load(weights_only=True) reads: {reason[:200]}"
        ) from error
    except Exception as error:  # safetensors has errors of its own
        raise SettingError(f"{setting}: '{file}' is damaged: {str(error)[:200]}") from error
    for key in _NESTED:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping) or not all(isinstance(v, Tensor) for v in content.values()):
        raise SettingError(f"{setting}: '{file}' does not hold tensors by their names")
    return {str(name).removeprefix("module."): value for name, value in content.items()}


def put_weights(network: nn.Module, path: str | Path, setting: str = "model.weights") -> None:
    """Put the weights of a file into a network, all of them but a classifier's.

    Raises:
        SettingError: They are another network's; the sentence names the first that differs.
    """
    stored = read_weights(path, setting)
    expected = network.state_dict()
    for name, tensor in expected.items():
        if name not in stored:
            raise SettingError(
                f"{setting}: '{path}' has no weights '{name}' ({list(tensor.shape)} here): it is "
                "the file of another network"
            )
        if stored[name].shape != tensor.shape:
            raise SettingError(
                f"{setting}: '{name}' is {list(stored[name].shape)} in '{path}' and "
                f"{list(tensor.shape)} in this network: it is the file of another network, or of "
                "one for images of another size"
            )
    for name in stored:
        if name not in expected and not name.startswith(_HEADS):
            raise SettingError(
                f"{setting}: '{path}' has weights '{name}' ({list(stored[name].shape)}), which "
                "this network lacks: it is the file of another network"
            )
    with torch.no_grad():
        network.load_state_dict({name: stored[name].to(t) for name, t in expected.items()})
