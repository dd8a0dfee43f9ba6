"""What was asked for of a run, in the words of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clframe.config.groups import NAMED, SETTINGS
from clframe.utils.hydra_quote import override_value

_ALWAYS = ("stream", "strategy", "seed")
_PLAIN = ("scenario", "data_dir", "download", "active_outputs", "pretrain", "plugin_path", "seed")


class _NotTypedError(Exception):
    """Something that cannot be typed."""


def given_overrides(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str] | None:
    """The overrides that make the same run; what has its default is left out.

    >>> given_overrides({"stream": "split_mnist", "strategy": ["ewc", "er"], "lr": 1}, {})
    ['stream=split_mnist', 'strategy=[ewc,er]']

    Args:
        values: The arguments of `clframe.fit`.
        defaults: What they are by default.

    Returns:
        None where the run is made with objects of Python (a stream, a plugin, a module).
    """
    try:
        return list(_words(values, defaults))
    except _NotTypedError:
        return None


def _words(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[str]:
    given = {k: v for k, v in values.items() if k in _ALWAYS or v != defaults.get(k)}
    for kind in NAMED:
        if kind in given:
            yield from _named(kind, given[kind])
    yield from _listed("strategy", given.get("strategy", "naive"))
    if "logger" in given:
        yield from _listed("logger", given["logger"] or [])
    for name in SETTINGS:
        for key, value in (given.get(name) or {}).items():
            yield f"{name}.{key}={_typed(value)}"
    for name in _PLAIN:
        if name in given:
            yield f"{name}={_typed(given[name])}"


def _named(group: str, value: Any) -> Iterator[str]:
    """A choice by name, then its settings."""
    if isinstance(value, str):
        yield f"{group}={value}"
    elif isinstance(value, Mapping) and isinstance(value.get("name"), str):
        yield f"{group}={value['name']}"
        for key, item in value.items():
            if key != "name":
                yield f"{group}.{key}={_typed(item)}"
    else:
        raise _NotTypedError


def _listed(group: str, value: Any) -> Iterator[str]:
    """Choices by name, then the settings of each."""
    parts = [value] if isinstance(value, str | Mapping) else value
    if not isinstance(parts, Sequence):
        raise _NotTypedError
    names: list[str] = []
    settings: list[str] = []
    for part in parts:
        if isinstance(part, str):
            names.append(part)
        elif isinstance(part, Mapping):
            names += map(str, part)
            settings += [
                f"{group}.{name}.{key}={_typed(item)}"
                for name, values in part.items()
                for key, item in (values or {}).items()
            ]
        else:
            raise _NotTypedError
    yield f"{group}={names[0] if len(names) == 1 else override_value(names) if names else 'none'}"
    yield from settings


def _typed(value: Any) -> str:
    """A value as it is typed."""
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, list | tuple):
        value = [str(item) if isinstance(item, Path) else item for item in value]
    elif isinstance(value, Mapping):
        value = dict(value)
    elif not (value is None or isinstance(value, bool | int | float | str)):
        raise _NotTypedError
    return override_value(value)
