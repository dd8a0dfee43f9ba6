"""What ``config.yaml`` says of the parts of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.runs.received import copy_names
from clframe.utils import setting_checks

if TYPE_CHECKING:
    from clframe.core.plugin import Plugin
    from clframe.core.registry import Kind, Registry


def record(registry: Registry, kind: Kind, named: Any) -> dict[str, Any]:
    """What config.yaml says of a thing: its name with all settings, or its class."""
    if isinstance(named, str):
        named = {"name": named}
    if not isinstance(named, Mapping):
        return {"object": f"{type(named).__module__}.{type(named).__qualname__}"}
    name = named["name"]
    return {"name": name, **registry.settings_of(kind, name), **plain(dict(named))}


def settings_of_plugin(plugin: Plugin) -> dict[str, Any]:
    """A plugin's settings as it holds them (hyperparameters are attributes of the same name)."""
    return {
        name: plain(getattr(plugin, name, value))
        for name, value in setting_checks.defaults(type(plugin)).items()
    }


def plain(value: Any) -> Any:
    """Return a value as config.yaml has it; an object of another type as its text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def copies(names: Sequence[str | Path], registry: Registry) -> dict[str, Any]:
    """Which copies the run folder has of the plugin files."""
    files = [
        {"file": place, "sha256": file.sha256}
        for place, file in zip(copy_names(names), registry.files, strict=False)
    ]
    return {"plugin_files": files} if files else {}
