"""What can be typed, kept in a file, so that it is known without importing torch.

Names, settings and their meanings come from the registry, which imports everything: seconds. The
catalog is what it said, kept beside Python's compiled files, with a fingerprint of all that it
depends on: the files of clframe, of the packages that bring plugins, and what is installed. If
any of these differs, the registry is asked again. Plugins in files of the user are not in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.util
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.utils.entry_points import entry_points_of

if TYPE_CHECKING:
    from clframe.core.registry import Registry

FORMAT = 1
"""Of the file; another one is not read."""
PLUGIN_POINTS = "clframe.plugins"
"""The registry's group of entry points, said again here because the registry imports torch."""
_PACKAGE = Path(__file__).parents[1]
_STARTED = time.time_ns()


@dataclass(frozen=True)
class Setting:
    """One setting.

    Args:
        type: What it may be, in words.
        default: What it is if nothing is said.
        shown: The default as ``clframe list`` shows it.
        meaning: What it does.
        choices: Its values as they are typed, where there are few.
    """

    type: str
    default: Any
    shown: str
    meaning: str = ""
    choices: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Item:
    """One name.

    Args:
        kind: stream, strategy, plugin, model, ..., experiment, trainer or checkpoint.
        name: What is typed.
        summary: One line.
        origin: The package it comes from.
        settings: By name.
        paper: Where a method was published.
        scenarios: Of a strategy: those it works in.
        conflicts: Of a strategy: plugins it cannot be combined with.
        plugins: Of a strategy: settings by plugin.
        model: Of a stream: the model that learns it unless one is named.
        internal: Whether it is a plugin that every run has.
    """

    kind: str
    name: str
    summary: str
    origin: str = "clframe"
    settings: dict[str, Setting] = field(default_factory=dict)
    paper: str = ""
    scenarios: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    plugins: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    internal: bool = False


@dataclass(frozen=True)
class Catalog:
    """Everything that can be typed.

    Args:
        items: By kind and name.
        groups: The groups of a run's config, and the names that can be chosen in each.
        root_keys: The other keys of a run's config.
        defaults: What is chosen in a group if nothing is said.
    """

    items: dict[str, dict[str, Item]]
    groups: dict[str, list[str]]
    root_keys: list[str]
    defaults: dict[str, str]

    def named(self, name: str) -> list[Item]:
        """All that has this name, of whatever kind."""
        return [items[name] for items in self.items.values() if name in items]

    @property
    def words(self) -> dict[str, str]:
        """The kinds by the words that ``clframe list`` takes, in its order."""
        first, last = ("stream", "strategy"), ("experiment", "trainer", "checkpoint")
        others = [kind for kind in self.items if kind not in (*first, *last)]
        return {plural(kind): kind for kind in (*first, *others, *last)}

    @property
    def names(self) -> list[str]:
        """All names."""
        return sorted({name for items in self.items.values() for name in items})


def plural(kind: str) -> str:
    """The word for all of a kind.

    >>> [plural(kind) for kind in ("stream", "strategy", "trainer")]
    ['streams', 'strategies', 'trainer']
    """
    special = {"strategy": "strategies", "trainer": "trainer", "checkpoint": "checkpoint"}
    return special.get(kind, f"{kind}s")


def load(config_dirs: Sequence[str] = ()) -> Catalog:
    """The catalog, from its file or from the registry.

    Args:
        config_dirs: Folders with configs of the user's own; the catalog with these is not kept.
    """
    if config_dirs or os.environ.get("CLFRAME_CONFIG"):
        from clframe.core.registry import discover

        return make(discover(config_dir=config_dirs))
    known = cached()
    if known is not None:
        return known
    # Taken before the registry reads the files: what changes meanwhile is read again next time.
    mark = fingerprint()
    from clframe.core.registry import discover

    registry = discover()
    catalog = make(registry)
    # A broken package is said every time. A process that runs since before a file was changed may
    # have imported what the file was then, which is not what the fingerprint stands for.
    if not registry.problems and _newest() < _STARTED:
        _store(catalog, mark)
    return catalog


def cached(outdated: bool = False) -> Catalog | None:
    """The catalog if it is known without asking the registry.

    Args:
        outdated: Take one that may have changed since, which is good enough for a suggestion.
    """
    mark = None if outdated else fingerprint()
    for path in _places():
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            content = json.loads(path.read_text(encoding="utf-8"))
            if content.pop("fingerprint") == mark or outdated:
                return _from_content(content)
    return None


def _from_content(content: dict[str, Any]) -> Catalog:
    items = {
        kind: {
            name: Item(
                **{
                    **item,
                    "settings": {key: Setting(**value) for key, value in item["settings"].items()},
                }
            )
            for name, item in entries.items()
        }
        for kind, entries in content["items"].items()
    }
    return Catalog(**{**content, "items": items})


def _store(catalog: Catalog, mark: str) -> None:
    from clframe.utils.files import write_text

    text = json.dumps({"fingerprint": mark, **dataclasses.asdict(catalog)})
    for path in _places():
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text)
            return


def _places() -> Iterator[Path]:
    """Beside the compiled files, or in the user's cache where these are not written."""
    tag = sys.implementation.cache_tag
    if not sys.dont_write_bytecode:
        yield Path(importlib.util.cache_from_source(__file__)).with_name(f"catalog.{tag}.json")
    cache = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # a user without a home
        folder = Path(cache) if cache else Path.home() / ".cache"
        place = hashlib.sha256(str(_PACKAGE).encode()).hexdigest()[:12]
        yield folder / "clframe" / "catalog" / f"{place}.{tag}.json"


# ------------------------------------------------------------ when it is still right


def fingerprint() -> str:
    """A checksum of everything that decides which names there are."""
    digest = hashlib.sha256(f"{FORMAT} {sys.version}\n".encode())
    for point in _points():
        digest.update(f"{point.name} {point.value} {_version(point)}\n".encode())
    for folder in _folders():
        for path, size, changed in sorted(_files(folder)):
            digest.update(f"{path} {size} {changed}\n".encode())
    for entry in sys.path:  # what is installed decides what a plugin can offer
        if entry.endswith(("site-packages", "dist-packages")):
            with contextlib.suppress(OSError):
                digest.update(f"{entry} {os.stat(entry).st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _newest() -> int:
    """When the last of the files was changed."""
    return max((changed for folder in _folders() for *_, changed in _files(folder)), default=0)


def _points() -> list[EntryPoint]:
    return entry_points_of(PLUGIN_POINTS)


def _folders() -> list[Path]:
    """Where the names come from: clframe, its configs, and packages with plugins."""
    folders = [_PACKAGE]
    with contextlib.suppress(ImportError):
        folders += _homes("clframe.configs")
    for point in _points():
        with contextlib.suppress(ImportError, ValueError):
            folders += _homes(point.module.partition(".")[0])
    return folders


def _version(point: EntryPoint) -> str:
    return "" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _homes(package: str) -> list[Path]:
    """The folders, or the file, of a package that is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        return []
    if spec.submodule_search_locations is not None:
        return [Path(place) for place in spec.submodule_search_locations]
    return [Path(spec.origin)] if spec.origin else []


def _files(folder: Path) -> Iterator[tuple[str, int, int]]:
    """The code and the configs in a folder, with size and time of change."""
    places = [str(folder)]
    while places:
        place = places.pop()
        if place.endswith((".py", ".yaml")):
            with contextlib.suppress(OSError):
                status = os.stat(place)
                yield place, status.st_size, status.st_mtime_ns
            continue
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                if entry.name.endswith((".py", ".yaml")) or (
                    entry.is_dir() and entry.name != "__pycache__"
                ):
                    places.append(entry.path)


# ------------------------------------------------------------ asking the registry


def make(registry: Registry) -> Catalog:
    """The catalog of what a registry holds."""
    from clframe.checkpoint.settings import CheckpointSettings
    from clframe.config import compose, place
    from clframe.config.run_config import RunConfig
    from clframe.core.registry import KINDS
    from clframe.core.trainer import TrainerSettings
    from clframe.strategies import DEFAULT_PLUGINS
    from clframe.utils.config_files import config_files

    items: dict[str, dict[str, Item]] = {}
    for kind in KINDS:
        items[kind] = {
            entry.name: Item(
                kind=kind,
                name=entry.name,
                summary=entry.summary,
                origin=entry.origin,
                settings=_settings(entry.factory, _given(kind)),
                paper=str(getattr(entry.factory, "paper", "")),
                model=_plain(dict(entry.model)),
                internal=kind == "plugin" and entry.name in DEFAULT_PLUGINS,
            )
            for entry in registry.entries(kind)
        }
    items["strategy"] = _strategies(registry, items["plugin"])
    items["experiment"] = {}
    for group in (*KINDS, "experiment"):
        # Files of a group that are more than a registered name, the user's own among them.
        for name, file in config_files(group, registry.config_dirs).items():
            if name not in items[group] and name != "none":
                origin = str(file.path) if file.from_user else "clframe"
                items[group][name] = Item(group, name, file.summary, origin)
    for group, factory in (("trainer", TrainerSettings), ("checkpoint", CheckpointSettings)):
        summary = (factory.__doc__ or "").partition("\n")[0]
        items[group] = {group: Item(group, group, summary, settings=_settings(factory, ()))}
    known = compose.known_names(registry)
    chosen = RunConfig()
    defaults = {group: getattr(chosen, group, None) for group in known}
    return Catalog(
        items=items,
        groups={group: list(known.get(group, ())) for group in place.GROUPS},
        root_keys=list(place.ROOT_KEYS),
        defaults={key: value for key, value in defaults.items() if isinstance(value, str)},
    )


def _given(kind: str) -> tuple[str, ...]:
    from clframe.core.registry import GIVEN

    return GIVEN.get(kind, ())


def _settings(factory: Callable[..., Any], given: tuple[str, ...]) -> dict[str, Setting]:
    from clframe.cli._setting_docs import meanings
    from clframe.utils import setting_checks

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
    from clframe.core.plugin import conflicting
    from clframe.strategies import DEFAULT_PLUGINS, known_strategies

    classes = registry.plugin_classes()
    others = {name: classes[name] for name in classes if name not in DEFAULT_PLUGINS}
    items = {}
    for name, strategy in known_strategies(registry).items():
        parts = [classes[registry.get("plugin", plugin).name] for plugin in strategy.plugins]
        conflicts = [n for n in others if any(conflicting(part, others[n]) for part in parts)]
        scenarios = {"task", "domain", "class"}.intersection(*(part.scenarios for part in parts))
        origins = dict.fromkeys(plugins[plugin].origin for plugin in strategy.plugins)
        items[name] = Item(
            kind="strategy",
            name=name,
            summary=strategy.summary,
            origin="clframe" if strategy.has_file or not origins else next(iter(origins)),
            paper="; ".join(part.paper for part in parts if part.paper),
            scenarios=sorted(scenarios),
            conflicts=[other for other in conflicts if other not in strategy.plugins],
            plugins=_plain(strategy.plugins),
        )
    return items


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such numbers
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
