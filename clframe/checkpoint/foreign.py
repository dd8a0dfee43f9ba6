"""Intact states of another run: one error message instead of later failures."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import torch

from clframe.errors import RunFolderError

Given = ParamSpec("Given")
Made = TypeVar("Made")
_WRONG = (
    *(LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError),
    AssertionError,
)


_LIKE_PARAMETER = (
    "exp_avg",
    "exp_avg_sq",
    "max_exp_avg_sq",
    "momentum_buffer",
    "square_avg",
    "sum",
)
"""State that optimizers keep for every number of a parameter."""


class _HasStates(Protocol):
    @property
    def states(self) -> Path | None: ...


Owner = TypeVar("Owner", bound=_HasStates)


def checked(
    method: Callable[Concatenate[Owner, Given], Made],
) -> Callable[Concatenate[Owner, Given], Made]:
    """Name the folder in the error if the state that a method restores is not of this run."""

    @functools.wraps(method)
    def restoring(self: Owner, /, *arguments: Given.args, **named: Given.kwargs) -> Made:
        try:
            return method(self, *arguments, **named)
        except torch.OutOfMemoryError:
            raise
        except _WRONG as error:
            raise not_of_this_run(self.states, error) from error

    return restoring


def check_optimizer(saved: Any, optimizer: torch.optim.Optimizer) -> None:
    """Refuse the state of another optimizer, with which torch would fail later at a step.

    Raises:
        ValueError: A setting has another type, or a tensor another shape than its parameter.
    """
    groups = optimizer.param_groups
    for own, other in zip(groups, saved["param_groups"], strict=True):
        for name, value in own.items():
            if name != "params" and name in other and not _alike(value, other[name]):
                raise ValueError(f"the optimizer's {name} is {str(other[name])[:40]}")
    parameters = dict(enumerate(parameter for group in groups for parameter in group["params"]))
    kept = {name for values in saved["state"].values() for name in values}
    for index, values in saved["state"].items():
        for name in kept.intersection(("step", *_LIKE_PARAMETER)) - set(values):
            raise ValueError(f"the optimizer has no {name} of parameter {index}")
        for name, value in values.items():
            good = True
            if name in _LIKE_PARAMETER and value is not None:
                good = isinstance(value, torch.Tensor) and value.shape == parameters[index].shape
            elif name == "step":
                good = isinstance(value, int | float) or value.numel() == 1
            if not good:
                raise ValueError(f"the optimizer's {name} does not fit its parameter")


def _alike(first: Any, second: Any) -> bool:
    """Return whether two settings have the same type, including the items of lists."""
    numbers = (int, float)
    if type(first) in numbers and type(second) in numbers:
        return math.isfinite(second)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(_alike, first, second))
    if isinstance(first, torch.Tensor) or isinstance(second, torch.Tensor):
        return True  # A learning rate may be a tensor.
    if first is None or second is None:
        return isinstance(first, bool | None) and isinstance(second, bool | None)
    return type(first) is type(second)


def not_of_this_run(folder: Path | None, error: Exception) -> RunFolderError:
    """Return the error of a state that does not fit."""
    first: Any = (str(error).splitlines() or [""])[0]
    return RunFolderError(
        f"a checkpoint in '{folder}' is not a state of this run ({type(error).__name__}: "
        f"{first[:200]}); put back the run's own"
    )
