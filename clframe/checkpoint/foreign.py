"""States that are whole but not of this run: one message instead of whatever they lead to."""

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
"""What optimizers keep for every number of a parameter."""


class _HasStates(Protocol):
    @property
    def states(self) -> Path | None: ...


Owner = TypeVar("Owner", bound=_HasStates)


def checked(
    method: Callable[Concatenate[Owner, Given], Made],
) -> Callable[Concatenate[Owner, Given], Made]:
    """Let a method that restores a state name the folder where the state is not of this run."""

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
    """Refuse the state of another optimizer, which torch would take and fail with at a step.

    Raises:
        ValueError: A setting has another type, or a tensor another shape than its parameter.
    """
    groups = optimizer.param_groups
    for own, other in zip(groups, saved["param_groups"], strict=True):
        for name, value in own.items():
            if name != "params" and name in other and not _alike(value, other[name]):
                raise ValueError(f"the optimizer's {name} is {str(other[name])[:40]}")
    parameters = dict(enumerate(one for group in groups for one in group["params"]))
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


def _alike(one: Any, other: Any) -> bool:
    """Whether two settings are of one type, down to the members of a list."""
    numbers = (int, float)
    if type(one) in numbers and type(other) in numbers:
        return math.isfinite(other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        return True  # a learning rate may be one
    if one is None or other is None:
        return isinstance(one, bool | None) and isinstance(other, bool | None)
    return type(one) is type(other)


def not_of_this_run(place: Path | None, error: Exception) -> RunFolderError:
    """Return the error of a state that does not fit."""
    first: Any = (str(error).splitlines() or [""])[0]
    return RunFolderError(
        f"a checkpoint in '{place}' is not a state of this run ({type(error).__name__}: "
        f"{first[:200]}); put back the run's own"
    )
