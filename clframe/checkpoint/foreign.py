"""States that are whole but not of this run: one message instead of whatever they lead to."""

from __future__ import annotations

import functools
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


def not_of_this_run(place: Path | None, error: Exception) -> RunFolderError:
    """Return the error of a state that does not fit."""
    first: Any = (str(error).splitlines() or [""])[0]
    return RunFolderError(
        f"a checkpoint in '{place}' is not a state of this run ({type(error).__name__}: "
        f"{first[:200]}); put back the run's own"
    )
