"""The public names: what a user may import, by module."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import clframe

MODULES = (
    "clframe",
    "clframe.plugins",
    "clframe.testing",
    "clframe.metrics",
    "clframe.worlds.bddl",
)

FOR_AUTHORS = (
    "clframe.data.buffer",
    "clframe.data.storage",
    "clframe.robot.stream",
    "clframe.robot.task",
    "clframe.robot.learner",
    "clframe.training.schedulers",
)
"""Modules that authors of methods, streams and policies build on; shown, examples or not."""


def names(module: str) -> dict[str, Any]:
    """The public names of a module with what they stand for, constants left out."""
    found = importlib.import_module(module)
    listed = getattr(found, "__all__", None) or [
        name
        for name, value in vars(found).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module
    ]
    values = {name: getattr(found, name) for name in sorted(listed, key=str.lower)}
    return {name: value for name, value in values.items() if not isinstance(value, str)}


def documented(value: Any) -> str:
    """The docstring of a public name; a type alias has none of its own.

    What marks hooks is an object of pluggy's: the class whose methods it marks explains it.
    """
    if value is clframe.hookimpl:
        return inspect.getdoc(clframe.Plugin) or ""
    own = inspect.isclass(value) or inspect.isroutine(value) or hasattr(value, "__wrapped__")
    return inspect.getdoc(value) or "" if own else ""
