"""The arguments of ``clframe.fit`` as overrides of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clframe.config.groups import NAMED, SETTINGS
from clframe.utils.hydra_quote import override_value

_ALWAYS = ("stream", "strategy", "seed")
_PLAIN = ("scenario", "data_dir", "download", "active_outputs", "pretrain", "plugin_path", "seed")


class _NotTypedError(Exception):
    """A value that cannot be typed."""


def given_overrides(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str] | None:
    """Return the overrides that make the same run, without defaults.

    >>> given_overrides({"stream": "split_mnist", "strategy": ["ewc", "er"], "lr": 1}, {})
    ['stream=split_mnist', 'strategy=[ewc,er]']

    Args:
        values: The arguments of `clframe.fit`.
        defaults: Their default values.

    Returns:
        None if the run is made with Python objects (a stream, a plugin, a module).
    """
    try:
        return list(_overrides(values, defaults))
    except _NotTypedError:
        return None


def _overrides(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[str]:
    chosen = {k: v for k, v in values.items() if k in _ALWAYS or v != defaults.get(k)}
    for kind in NAMED:
        if kind in chosen:
            yield from _named(kind, chosen[kind])
    yield from _listed("strategy", chosen.get("strategy", "naive"))
    if "logger" in chosen:
        yield from _listed("logger", chosen["logger"] or [])
    for name in SETTINGS:
        for key, value in (chosen.get(name) or {}).items():
            yield f"{name}.{key}={_typed(value)}"
    for name in _PLAIN:
        if name in chosen:
            yield f"{name}={_typed(chosen[name])}"


def _named(group: str, value: Any) -> Iterator[str]:
    """Yield a choice by name, then its settings."""
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
    """Yield choices by name, then the settings of each."""
    choices = [value] if isinstance(value, str | Mapping) else value
    if not isinstance(choices, Sequence):
        raise _NotTypedError
    names: list[str] = []
    settings: list[str] = []
    for choice in choices:
        if isinstance(choice, str):
            names.append(choice)
        elif isinstance(choice, Mapping):
            names += map(str, choice)
            settings += [
                f"{group}.{name}.{key}={_typed(item)}"
                for name, values in choice.items()
                for key, item in (values or {}).items()
            ]
        else:
            raise _NotTypedError
    yield f"{group}={names[0] if len(names) == 1 else override_value(names) if names else 'none'}"
    yield from settings


def _typed(value: Any) -> str:
    """Return a value as it is typed."""
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, list | tuple):
        value = [str(item) if isinstance(item, Path) else item for item in value]
    elif isinstance(value, Mapping):
        value = dict(value)
    elif not (value is None or isinstance(value, bool | int | float | str)):
        raise _NotTypedError
    return override_value(value)
