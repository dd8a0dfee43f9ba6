"""Make the catalog from the registry."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from clframe.config import name_catalog
from clframe.config.groups import CHOSEN, GROUPS
from clframe.config.name_catalog import Catalog, Item, Setting
from clframe.config.run_config import RunConfig
from clframe.config.setting_docs import meanings
from clframe.config.setting_groups import GROUPS_OF_SETTINGS
from clframe.core.plugin import conflicting
from clframe.core.registry import ENTRY_POINT_GROUP, GIVEN, KINDS, Entry, Registry, discover
from clframe.errors import SettingError
from clframe.strategies import DEFAULT_PLUGINS, known_strategies, measuring_plugins
from clframe.utils import entry_points, setting_checks
from clframe.utils.config_files import config_files
from clframe.utils.files import write_text

_STARTED = time.time_ns()


def make_installed() -> Catalog:
    """Make the catalog of clframe and the installed packages, and keep it in its file."""
    # Taken before the registry reads the files: a file that changes in between is read again later.
    folders = [name_catalog.PACKAGE, *package_folders()]
    mark = name_catalog.fingerprint(folders)
    registry = discover()
    made = make(registry)
    # Every command warns about a broken package. If a file is newer than the process, the process
    # may have imported an earlier version of it, which the fingerprint does not stand for.
    newest = max(
        (changed for folder in folders for *_, changed in name_catalog.files_in(folder)), default=0
    )
    if not registry.problems and newest < _STARTED:
        read = {"fingerprint": mark, "folders": [str(folder) for folder in folders]}
        text = json.dumps({**read, **dataclasses.asdict(made)})
        for path in name_catalog.places():
            with contextlib.suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_text(path, text)
                break
    return made


def make(registry: Registry, installed: Catalog | None = None) -> Catalog:
    """Return the catalog of what a registry holds.

    Args:
        registry: May include names from the user's own files.
        installed: The catalog without these files, whose items are not made again.

    Raises:
        SettingError: A config file of the user has a name that is already taken.
    """
    items: dict[str, dict[str, Item]] = {}
    measuring = measuring_plugins(registry)
    for kind in KINDS:
        before = {} if installed is None else installed.items[kind]
        files = config_files(kind, registry.config_dirs)
        items[kind] = {}
        for entry in registry.entries(kind):
            item = before.get(entry.name)
            if item is None or item.origin != entry.origin:
                item = _item(entry, entry.name in files, entry.name in measuring)
            items[kind][entry.name] = item
    items["strategy"] = _strategies(registry, items["plugin"])
    items["experiment"] = {}
    for group in (*KINDS, "experiment"):
        # Files of a group that are more than a registered name, including the user's own.
        for name, file in config_files(group, registry.config_dirs).items():
            if name not in items[group] and name != "none":
                origin = str(file.path) if file.from_user else "clframe"
                items[group][name] = Item(group, name, file.summary, origin, has_file=True)
    for group, factory in GROUPS_OF_SETTINGS.items():
        summary = (factory.__doc__ or "").partition("\n")[0]
        items[group] = {group: Item(group, group, summary, settings=_settings(factory, ()))}
    chosen = RunConfig()
    defaults = {group: getattr(chosen, group, None) for group in CHOSEN}
    return Catalog(
        items=items,
        groups={group: _names(registry, items, group) for group in GROUPS},
        defaults={key: value for key, value in defaults.items() if isinstance(value, str)},
        config_dirs=list(map(str, registry.config_dirs)),
    )


def _names(registry: Registry, items: dict[str, dict[str, Item]], group: str) -> list[str]:
    """Return the names that can be chosen in a group."""
    if group not in CHOSEN:
        return []
    if group == "strategy":
        return list(items["strategy"])
    files = config_files(group, registry.config_dirs)
    if group not in KINDS:
        return list(files)
    registered = registry.names(group)
    for name in registered:
        if name in files and files[name].from_user:
            raise SettingError(
                f"'{files[name].path}' has the name of an existing {group}; give it another name"
            )
    return sorted({*registered, *files, *(["none"] if group == "logger" else [])})


def _item(entry: Entry, has_file: bool, measures: bool) -> Item:
    return Item(
        kind=entry.kind,
        name=entry.name,
        summary=entry.summary,
        origin=entry.origin,
        settings=_settings(entry.factory, GIVEN.get(entry.kind, ())),
        paper=str(getattr(entry.factory, "paper", "")),
        model=_plain(dict(entry.model)),
        internal=entry.kind == "plugin" and entry.name in DEFAULT_PLUGINS,
        measures=entry.kind == "plugin" and measures,
        has_file=has_file,
    )


def _settings(factory: Callable[..., Any], given: tuple[str, ...]) -> dict[str, Setting]:
    explained = meanings(factory)
    types = setting_checks.types_of(factory, given)
    choices = setting_checks.choices_of(factory)
    return {
        name: Setting(
            type=types[name],
            default=_plain(value),
            shown=str(value),
            meaning=explained.get(name, ""),
            choices=choices.get(name, []),
        )
        for name, value in setting_checks.defaults(factory, given).items()
    }


def _strategies(registry: Registry, plugins: dict[str, Item]) -> dict[str, Item]:
    classes = registry.plugin_classes()
    others = {name: classes[name] for name in classes if name not in DEFAULT_PLUGINS}
    items = {}
    for name, strategy in known_strategies(registry).items():
        names = [plugin for plugin in strategy.plugins if plugin in plugins]
        plugin_classes = [classes[plugin] for plugin in names]
        conflicts = [
            n
            for n in others
            if any(conflicting(plugin_class, others[n]) for plugin_class in plugin_classes)
        ]
        scenarios = {"task", "domain", "class"}.intersection(
            *(plugin_class.scenarios for plugin_class in plugin_classes)
        )
        origins = dict.fromkeys(plugins[plugin].origin for plugin in names)
        items[name] = Item(
            kind="strategy",
            name=name,
            summary=strategy.summary,
            origin="clframe" if strategy.has_file or not origins else next(iter(origins)),
            paper="; ".join(
                plugin_class.paper for plugin_class in plugin_classes if plugin_class.paper
            ),
            scenarios=sorted(scenarios),
            conflicts=[other for other in conflicts if other not in strategy.plugins],
            plugins=_plain(strategy.plugins),
            has_file=strategy.has_file,
        )
    return items


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON cannot hold infinity and NaN.
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


# ---------------------------------------------------------------- dependencies


def package_folders() -> Iterator[Path]:
    """Yield the folders of the configs and of the packages with plugins, which are not imported."""
    modules = [point.module for point in entry_points.entry_points_of(ENTRY_POINT_GROUP)]
    for name in ("clframe.configs", *(module.partition(".")[0] for module in modules)):
        with contextlib.suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.submodule_search_locations is not None:
                yield from map(Path, spec.submodule_search_locations)
            elif spec is not None and spec.origin:
                yield Path(spec.origin)
