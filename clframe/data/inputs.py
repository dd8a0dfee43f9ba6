"""Inputs of samples, one tensor or several by name, and operations on all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

Inputs: TypeAlias = "Tensor | dict[str, Tensor]"
"""One tensor, or several by name (RGB and depth, the parts of a trajectory)."""


def map_inputs(function: Callable[[Tensor], Tensor], x: Any) -> Any:
    """Apply a function to a tensor or to each tensor of a mapping.

    >>> map_inputs(lambda t: t + 1, {"a": torch.zeros(1)})
    {'a': tensor([1.])}
    """
    if isinstance(x, dict):
        return {key: function(value) for key, value in x.items()}
    return function(x)


def cat_inputs(parts: Sequence[Any]) -> Any:
    """Join inputs along the first dimension."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], dict):
        return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
    return torch.cat(list(parts))


def tensors_of(x: Any) -> list[Tensor]:
    """Return the tensor, or all of them, as a list."""
    return list(x.values()) if isinstance(x, dict) else [x]
