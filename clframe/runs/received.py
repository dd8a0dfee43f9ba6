"""Code that a run folder names, and checks that it may be executed.

A run folder may come from somebody else, so what its ``config.yaml`` names is executed only if the
user names it on the command line or has confirmed it (:mod:`clframe.utils.trust`). A run keeps a
copy of each ``plugin_path`` file in ``plugins/``, listed in ``config.yaml`` with its SHA-256.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clframe.errors import PluginError, RunFolderError, SettingError
from clframe.recording.results_file import leaves
from clframe.utils.console import warn_user
from clframe.utils.regular import read_bytes
from clframe.utils.trust import confirm, trusted

PLUGINS = "plugins"
"""The folder of a run with the copies of its plugin files."""
_COPY = re.compile(rf"{PLUGINS}/(\d+/)?[^/\\\0]+\.py")
_LARGEST = 16 << 20
_PLACES = ("dir", "path", "uri", "location")
_OWN_MODULES = ("clframe", "gymnasium", "minigrid", "gymnasium_robotics")
_OWN_LOGGERS = ("lightning", "pytorch_lightning", "lightning_fabric")
"""Packages that a run may name: they are clframe's or part of its extras."""


@dataclass(frozen=True)
class PluginFile:
    """A file with code that a run names.

    Args:
        name: The name in ``plugin_path``.
        path: The file to load.
        sha256: Checksum of the content.
        size: Size in bytes.
        changed: Whether the file at the original path now differs from the run's copy.
    """

    name: str
    path: Path
    sha256: str
    size: int
    changed: bool = False


def copy_names(paths: Sequence[str | Path]) -> list[str]:
    """Return the paths of the copies in a run folder; files of the same name get a folder each.

    >>> copy_names(["a/my.py", "other.py", "b/my.py"])
    ['plugins/my.py', 'plugins/other.py', 'plugins/2/my.py']
    """
    names: list[str] = []
    for number, path in enumerate(paths):
        name = f"{PLUGINS}/{Path(path).name}"
        names.append(name if name not in names else f"{PLUGINS}/{number}/{Path(path).name}")
    return names


def as_list(plugin_path: str | Path | Sequence[str | Path]) -> list[str | Path]:
    """Return the files of a ``plugin_path`` as a list."""
    return [plugin_path] if isinstance(plugin_path, str | Path) else list(plugin_path)


def plugin_paths(overrides: Sequence[str]) -> list[str]:
    """Return the files named by ``plugin_path=``, needed before anything else can be checked."""
    files: list[str] = []
    for override in overrides:
        if override.startswith("plugin_path="):
            value = override.partition("=")[2].strip().strip("[]")
            files += [path.strip().strip("'\"") for path in value.split(",") if path.strip()]
    return [path for path in files if path != "null"]


def plugin_files(content: Mapping[str, Any], run: Path) -> list[PluginFile]:
    """Return the plugin files of a run: the original if it is unchanged, else the run's copy.

    Args:
        content: Content of ``config.yaml``.
        run: The run folder.

    Raises:
        ClframeError: A file is missing, or a copy is not the one in ``config.yaml``.
    """
    names = [str(name) for name in content.get("plugin_path") or ()]
    if content.get("plugin_files") is None:  # a run by an older version
        return [_original(name, run) for name in names]
    return [
        _copy(name, entry, run) for name, entry in zip(names, _entries(content, run), strict=True)
    ]


def copies(content: Mapping[str, Any], run: Path) -> list[Path]:
    """Return the copies of plugin files in a run folder.

    Raises:
        RunFolderError: ``config.yaml`` names other files, or one is missing.
    """
    paths = [run / entry["file"] for entry in _entries(content, run)]
    for path in paths:
        if not path.is_file():
            raise RunFolderError(f"'{path}', a copy of a plugin file, is missing; put it back")
    return paths


def _entries(content: Mapping[str, Any], run: Path) -> list[dict[str, str]]:
    names, entries = content.get("plugin_path") or (), content.get("plugin_files") or []
    if entries and not _are_copies(entries, names):
        raise RunFolderError(
            f"'{run / 'config.yaml'}' has a 'plugin_files' that does not list one file and its "
            "sha256 for each of plugin_path; put back a copy of it"
        )
    checked: list[dict[str, str]] = entries
    return checked


def _are_copies(copies: Any, names: Sequence[Any]) -> bool:
    return (
        isinstance(copies, list)
        and len(copies) == len(names)
        and all(
            isinstance(entry, dict)
            and isinstance(entry.get("file"), str)
            and isinstance(entry.get("sha256"), str)
            and _COPY.fullmatch(entry["file"])
            and ".." not in entry["file"].split("/")
            for entry in copies
        )
    )


def _original(name: str, run: Path) -> PluginFile:
    path = Path(name)
    if not path.is_file():
        raise PluginError(
            f"run '{run}' names plugin_path '{name}', but there is no file '{name}' here and the "
            "run has no copy; add plugin_path=FILE"
        )
    content = _content(path)
    return PluginFile(name, path, hashlib.sha256(content).hexdigest(), len(content))


def _copy(name: str, entry: Mapping[str, str], run: Path) -> PluginFile:
    path, original = run / entry["file"], Path(name)
    there = _sum(original) if original.is_file() else None
    if there is not None and there[0] == entry["sha256"]:
        return PluginFile(name, original, *there)
    content = _sum(path)
    if content is None or content[0] != entry["sha256"]:
        problem = "is missing" if content is None else "is not what the run wrote"
        raise RunFolderError(
            f"'{path}', the run's copy of '{name}', {problem}; put it back, or add plugin_path=FILE"
        )
    return PluginFile(name, path, *content, changed=there is not None)


def _sum(path: Path) -> tuple[str, int] | None:
    if not path.is_file():
        return None
    content = _content(path)
    return hashlib.sha256(content).hexdigest(), len(content)


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path, _LARGEST)
    except OSError as error:
        raise PluginError(f"plugin_path '{path}' cannot be read: {error.strerror}") from error


def modules(content: Mapping[str, Any]) -> list[str]:
    """Return the modules that a config names and that are neither clframe's nor its extras'.

    They are named by environments (``envs: ["module:Class"]``) and by loggers (``class_path``).
    """
    names: dict[str, None] = {}
    for name in _environments(content.get("stream")):
        module = name.rpartition(":")[0]
        if module and module.partition(".")[0] not in _OWN_MODULES:
            names[module] = None
    for name in _class_paths(content.get("logger")):
        module = name.rpartition(".")[0]
        if module and module.partition(".")[0] not in _OWN_LOGGERS:
            names[module] = None
    return list(names)


def _environments(value: Any, named: bool = False) -> Iterator[str]:
    """Yield all names below an entry ``envs``, at any depth."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _environments(item, named or key == "envs")
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _environments(item, named)
    elif named and isinstance(value, str):
        yield value


def _class_paths(value: Any) -> Iterator[str]:
    loggers = value.values() if isinstance(value, Mapping) else ()
    for settings in loggers:
        if isinstance(settings, Mapping) and isinstance(settings.get("class_path"), str):
            yield settings["class_path"]


def check(content: Mapping[str, Any], run: Path, typed: Sequence[str] = ()) -> list[PluginFile]:
    """Refuse code of a run that the user has neither named nor confirmed.

    Args:
        content: Content of ``config.yaml``.
        run: The run folder.
        typed: The user's arguments: ``plugin_path=FILE`` replaces all plugin files of the run, and
            a module named there is confirmed.

    Returns:
        The plugin files to load; none if the user names others.

    Raises:
        SettingError: Names the file or module, the run, and what to do.
    """
    confirmed = trusted()
    for module in modules(content):
        own = re.compile(rf"(?<![\w.]){re.escape(module)}[:.]\w")
        if not any(map(own.search, typed)) and not confirmed.has_module(module):
            raise SettingError(
                f"run '{run}' names the module '{module}', which is not imported because you have "
                f"not confirmed it: read it, then run clframe trust {shlex.quote(str(run))}"
            )
    if plugin_paths(typed):
        return []
    files = plugin_files(content, run)
    for file in files:
        if file.sha256 not in confirmed.files:
            raise SettingError(
                f"run '{run}' comes with code in '{file.path}', which is not executed because you "
                f"have not confirmed it. Read it, then run clframe trust {shlex.quote(str(run))}, "
                "or name a file of your own with plugin_path=FILE"
            )
    return files


def say_changed(content: Mapping[str, Any], run: Path) -> None:
    """Warn about plugin files that were changed since the run copied them."""
    for file in plugin_files(content, run):
        if file.changed:
            warn_user(
                f"'{file.name}' has changed since the run began; it continues with its own copy, "
                f"'{file.path}' (plugin_path={file.name} takes the changed one)"
            )


def places(content: Mapping[str, Any]) -> list[str]:
    """Return the places outside of the run folder that the settings of a Lightning logger name."""
    folders: list[str] = []
    loggers = content.get("logger")
    settings = loggers.get("lightning") if isinstance(loggers, Mapping) else None
    own = settings if isinstance(settings, Mapping) else {}
    for key, value in leaves({name: own[name] for name in own if name != "class_path"}):
        text = str(value)
        if isinstance(value, str) and (key.endswith(_PLACES) or "/" in text or "\\" in text):
            folders.append(text)
    return folders


def check_places(content: Mapping[str, Any], run: Path, typed: Sequence[str] = ()) -> None:
    """Refuse a logger that would write to a place the user has not named or confirmed.

    Raises:
        SettingError: Names the place, the run, and what to do.
    """
    confirmed = {*trusted().places, *(word.partition("=")[2].strip("'\"") for word in typed)}
    for target in places(content):
        if target not in confirmed and not Path(target).resolve().is_relative_to(run.resolve()):
            raise SettingError(
                f"a logger of run '{run}' writes to '{target}', outside of the run folder: name it "
                f"with logger.lightning.save_dir={target}, or confirm it with clframe trust "
                f"{shlex.quote(str(run))}"
            )


def confirm_run(content: Mapping[str, Any], files: Mapping[str, str]) -> None:
    """Record that the user has confirmed the code that a run names.

    Args:
        content: Content of ``config.yaml``.
        files: The names of its plugin files by their SHA-256.

    Raises:
        ClframeError: The user's list cannot be written.
    """
    confirm(files, modules(content), places(content))
