"""Meanings of settings, from the ``Args`` of docstrings."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

_ENTRY = re.compile(r"(\w+)(?: \([^)]*\))?:\s*(.*)")
_SECTIONS = ("Returns:", "Raises:", "Yields:", "Examples:", "Attributes:")


def meanings(factory: Callable[..., Any]) -> dict[str, str]:
    """Return the meaning of each setting of a factory.

    Settings that stand for the fields of a dataclass are explained by that dataclass, and a class
    inherits what its bases explain.
    """
    target = factory.func if isinstance(factory, functools.partial) else factory
    explained: dict[str, str] = {}
    for parameter in inspect.signature(factory).parameters.values():
        if dataclasses.is_dataclass(parameter.default) and not inspect.isclass(parameter.default):
            explained |= meanings(type(parameter.default))
    if inspect.isclass(target):
        for base in reversed(target.__mro__[:-1]):
            explained |= arguments(base.__doc__ or "")
            explained |= arguments(getattr(base.__dict__.get("__init__"), "__doc__", None) or "")
    else:
        explained |= arguments(target.__doc__ or "")
    return explained


def arguments(docstring: str) -> dict[str, str]:
    """Return the entries of a docstring's ``Args``, each as one line.

    >>> arguments('''Sum up.
    ...
    ... Args:
    ...     hidden: Units of each layer,
    ...         from below.
    ...     dropout (float): Share that is left out.
    ...
    ... Returns:
    ...     A network.
    ... ''')
    {'hidden': 'Units of each layer, from below.', 'dropout': 'Share that is left out.'}
    """
    lines = iter(inspect.cleandoc(docstring).splitlines())
    for line in lines:
        if line.strip() == "Args:":
            break
    explained: dict[str, str] = {}
    name, indent = "", 0
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if line.strip() and (depth == 0 or line.strip() in _SECTIONS):
            break
        entry = _ENTRY.fullmatch(line.strip())
        if entry and (not name or depth <= indent):
            name, indent = entry[1], depth
            explained[name] = entry[2]
        elif name and line.strip():
            explained[name] = f"{explained[name]} {line.strip()}".strip()
    return {key: text.replace("``", "") for key, text in explained.items()}
