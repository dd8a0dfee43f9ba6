"""The catalog: every name and setting of a run's config, known without importing torch.

Names, settings and their meanings come from the registry, which imports everything and takes
seconds. The catalog is a copy of them in a file next to Python's compiled files, with a fingerprint
of everything it depends on: the files of clframe, of the packages with plugins, and what is
installed. If any of these changes, the catalog is made again. Names are checked here and nowhere
else.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clframe.errors import UnknownNameError, nearest

FORMAT = 3
"""Version of the file format; other versions are not read."""
PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Setting:
    """One setting.

    Args:
        type: Type of the value, as text.
        default: Value if the setting is left out.
        shown: The default as ``clframe list`` shows it.
        meaning: Explanation.
        choices: The values as they are typed, if there are few.
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
        kind: stream, strategy, plugin, model, ..., experiment, or a group of settings.
        name: The name as it is typed.
        summary: One line.
        origin: The package it comes from.
        settings: By name.
        paper: Where a method was published.
        scenarios: Of a strategy: the scenarios it supports.
        conflicts: Of a strategy: plugins it cannot be combined with.
        plugins: Of a strategy: settings by plugin.
        model: Of a stream: its default model. Of a learner: the model that it needs.
        internal: Whether it is a plugin that every run has.
        measures: Whether it is a plugin that only measures, which is no part of a strategy's name.
        has_file: Whether Hydra reads a config file of this name.
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
    measures: bool = False
    has_file: bool = False


@dataclass(frozen=True)
class Catalog:
    """All names and settings that can be typed.

    Args:
        items: By kind and name.
        groups: The groups of a run's config, and the names that can be chosen in each.
        defaults: Default choice of each group.
        config_dirs: The user's folders with config files.
    """

    items: dict[str, dict[str, Item]]
    groups: dict[str, list[str]]
    defaults: dict[str, str]
    config_dirs: list[str] = field(default_factory=list)

    def get(self, kind: str, name: str) -> Item:
        """Return the item of a kind with this name.

        Raises:
            UnknownNameError: There is none; the message suggests the nearest name.
        """
        if name not in self.items[kind]:
            raise UnknownNameError(f"unknown {kind} '{name}'; {nearest(name, self.items[kind])}")
        return self.items[kind][name]

    def check(self, group: str, name: str) -> None:
        """Check that a group offers a choice.

        Raises:
            UnknownNameError: It does not; the message suggests the nearest name.
        """
        if name not in self.groups[group]:
            raise UnknownNameError(f"unknown {group} '{name}'; {nearest(name, self.groups[group])}")

    def model_for(self, stream: str, learner: str) -> dict[str, Any]:
        """Return the default model of a stream for a learner."""
        model = dict(self.get("stream", stream).model) or {"name": "mlp"}
        needed = self.get("learner", learner).model
        if not needed:
            return model
        settings = self.get("model", needed["name"]).settings
        return {**{key: value for key, value in model.items() if key in settings}, **needed}

    def strategy_name(self, names: Iterable[str]) -> str:
        """Return the name of a composition, without plugins that only measure."""
        plugins = self.items["plugin"]
        measuring = {name for name, plugin in plugins.items() if plugin.measures}
        return "+".join(name for name in dict.fromkeys(names) if name not in measuring) or "naive"


def cached(outdated: bool = False) -> Catalog | None:
    """Return the catalog in the file, or None if there is none or it is outdated.

    Args:
        outdated: Accept an outdated one, which is good enough for suggestions.
    """
    for path in places():
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            content = json.loads(path.read_text(encoding="utf-8"))
            mark, folders = content.pop("fingerprint"), map(Path, content.pop("folders"))
            if outdated or mark == fingerprint(folders):
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


def places() -> Iterator[Path]:
    """Yield paths for the file: next to the compiled files, else in the user's cache."""
    tag = sys.implementation.cache_tag
    if not sys.dont_write_bytecode:
        yield Path(importlib.util.cache_from_source(__file__)).with_name(f"catalog.{tag}.json")
    cache = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):  # a user without a home
        folder = Path(cache) if cache else Path.home() / ".cache"
        digest = hashlib.sha256(str(PACKAGE).encode()).hexdigest()[:12]
        yield folder / "clframe" / "catalog" / f"{digest}.{tag}.json"


# ------------------------------------------------------------ fingerprint


def fingerprint(folders: Iterable[Path]) -> str:
    """Return a checksum of everything that decides which names exist.

    Args:
        folders: Of clframe, its configs, and the packages with plugins.
    """
    digest = hashlib.sha256(f"{FORMAT} {sys.version}\n".encode())
    for line in installed():
        digest.update(line.encode())
    for folder in folders:
        for path, size, changed in sorted(files_in(folder)):
            digest.update(f"{path} {size} {changed}\n".encode())
    return digest.hexdigest()


def installed() -> list[str]:
    """List the installed packages with the time of their installation.

    Packages bring plugins and decide what a plugin can offer. Python's own ``importlib.metadata``
    reads a file of each package, which is slower.
    """
    lines = []
    for folder in dict.fromkeys(sys.path):
        with contextlib.suppress(OSError), os.scandir(folder or os.curdir) as entries:
            for entry in entries:
                # clframe's checkout has one, too, which counts only in the working directory.
                if (
                    entry.name.endswith((".dist-info", ".egg-info"))
                    and entry.name[:8] != "clframe."
                ):
                    lines.append(f"{entry.path} {entry.stat().st_mtime_ns}\n")
    return sorted(lines)


def files_in(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Yield the code and config files in a folder, with size and modification time."""
    paths = [str(folder)]
    while paths:
        path = paths.pop()
        if path.endswith((".py", ".yaml")):
            with contextlib.suppress(OSError):
                status = os.stat(path)
                yield path, status.st_size, status.st_mtime_ns
            continue
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                if entry.name.endswith((".py", ".yaml")) or (
                    entry.is_dir() and entry.name != "__pycache__"
                ):
                    paths.append(entry.path)
