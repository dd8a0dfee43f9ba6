"""State as plain data (tensors, numbers, strings, lists and dicts), loaded without code.

``plain_value`` converts modules and optimizers to their state dicts; ``load_value`` loads plain
data into an existing object. Both are used for plugins and for the run as a whole.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from clframe.errors import PluginError


def plain_value(value: Any) -> Any:
    """Return a value as tensors and plain Python data."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str | torch.Tensor):
        return value
    if isinstance(value, torch.Generator):
        return value.get_state()
    if hasattr(value, "state_dict"):
        return plain_value(value.state_dict())
    if isinstance(value, dict):
        return {key: plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    raise PluginError(
        f"a plugin's state may hold tensors, modules, optimizers, numbers, text, lists and dicts, "
        f"not {type(value).__name__}"
    )


def load_value(current: Any, saved: Any) -> Any:
    """Return the new value of an attribute when ``saved`` replaces ``current``."""
    if saved is None:
        return None
    if isinstance(current, torch.Generator):
        current.set_state(saved.cpu())  # Checkpoints load their tensors onto the GPU.
        return current
    if hasattr(current, "load_state_dict"):
        current.load_state_dict(copy.deepcopy(saved))
        return current
    if isinstance(current, dict) and any(hasattr(v, "load_state_dict") for v in current.values()):
        return {key: load_value(current.get(key), item) for key, item in saved.items()}
    _check_kind(current, saved)
    if isinstance(current, tuple):
        return tuple(saved)
    if isinstance(current, torch.Tensor) and isinstance(saved, torch.Tensor):
        return saved.to(current.device)
    return saved


_KINDS: tuple[tuple[Any, Any], ...] = (
    # A number often becomes a tensor when a tensor is first added to it, and vice versa.
    ((bool, int, float, torch.Tensor), (bool, int, float, torch.Tensor)),
    (str, str),
    (dict, dict),
    ((list, tuple), (list, tuple)),
)


def _check_kind(current: Any, saved: Any) -> None:
    """Refuse a value of another kind than the one it replaces.

    Raises:
        ValueError: For example, a text was saved for a number.
    """
    for kinds, fitting in _KINDS:
        if isinstance(current, kinds) and not isinstance(saved, fitting):
            raise ValueError(
                f"{type(saved).__name__} {str(saved)[:40]!r} in place of a {type(current).__name__}"
            )
