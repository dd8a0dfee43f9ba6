"""Make objects from a name, or from a mapping with a name and settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clframe.core.registry import Kind, Registry
from clframe.core.stream import SCENARIOS, Stream
from clframe.data.folder import data_folder
from clframe.errors import PluginError, SettingError
from clframe.utils import setting_checks

Named = str | Mapping[str, Any]
"""A registered name, or a mapping with ``name`` and settings."""


def make(registry: Registry, kind: Kind, named: Named, /, **given: Any) -> Any:
    """Make a registered object from a name or from a mapping with a name and settings."""
    if isinstance(named, str):
        return registry.build(kind, named, {}, **given)
    if not isinstance(named, Mapping) or not isinstance(named.get("name"), str):
        raise SettingError(f"{kind} must be a name or a mapping with a name, got {named!r}")
    values = {key: value for key, value in named.items() if key != "name"}
    return registry.build(kind, named["name"], values, **given)


def make_stream(
    registry: Registry,
    stream: Named,
    scenario: str | None,
    seed: int,
    data_dir: str | Path | None = None,
    download: bool = False,
) -> Stream:
    """Make a stream, passing the run's values to streams that have parameters for them.

    Args:
        registry: The registry that knows the name.
        stream: A name, or a mapping with a name and settings.
        scenario: task, domain or class; None uses the stream's own.
        seed: The seed of everything random in the stream, unless its settings have one.
        data_dir: The data folder; None is the default one.
        download: Whether missing data may be downloaded.
    """
    if scenario is not None and scenario not in SCENARIOS:
        raise SettingError(f"scenario must be one of {', '.join(SCENARIOS)}, got '{scenario}'")
    # A stream over another stream needs the registry to find it.
    given: dict[str, Any] = {"registry": registry, "download": download}
    given["data_dir"] = data_folder(data_dir)
    values = stream if isinstance(stream, Mapping) else {}
    # A stream's settings may contain a seed and a scenario of its own.
    if "seed" not in values:
        given["seed"] = seed
    name = stream if isinstance(stream, str) else stream.get("name")
    if not isinstance(name, str):
        raise SettingError("stream must be a name or a mapping with a name")
    fixed = not setting_checks.accepts(registry.get("stream", name).factory, "scenario")
    if scenario is not None and not fixed:
        given["scenario"] = scenario
    built: Stream = make(registry, "stream", stream, **given)
    if not isinstance(built, Stream):
        raise PluginError(
            f"stream '{name}' is a {type(built).__name__}: return a clframe.Stream from its "
            "function"
        )
    if scenario is not None and fixed and built.scenario != scenario:
        raise SettingError(
            f"stream '{name}' has its own scenario, {built.scenario}; leave scenario out"
        )
    return built
