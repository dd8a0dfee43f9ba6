"""Code that the user has confirmed: files by their SHA-256, modules by name and origin.

A run folder can name code: plugin files, environments and loggers by module. Code of the user's own
runs is confirmed when a run begins. Code of somebody else's run is confirmed with ``clframe
trust``. The list is a file of the user's, one JSON object a line, and only grows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from clframe.errors import ClframeError


@dataclass(frozen=True)
class Trusted:
    """Content of the list.

    Args:
        files: SHA-256 of confirmed files.
        modules: Confirmed modules, each with the file that its top package is imported from.
        places: Confirmed places outside of a run folder that loggers write to.
    """

    files: frozenset[str] = frozenset()
    modules: frozenset[tuple[str, str]] = frozenset()
    places: frozenset[str] = frozenset()

    def has_module(self, name: str) -> bool:
        """Return whether this module is confirmed and still has the same origin."""
        return (name, origin_of(name)) in self.modules


def list_path() -> Path:
    """Return the user's list: ``$XDG_CONFIG_HOME/clframe/trusted.jsonl`` (``~/.config/...``)."""
    chosen = os.environ.get("XDG_CONFIG_HOME")
    folder = Path(chosen) if chosen else Path.home() / ".config"
    return folder / "clframe" / "trusted.jsonl"


def origin_of(module: str) -> str:
    """Return where the top package of a module would be imported from; empty if nowhere.

    Nothing is imported.
    """
    top = module.partition(".")[0]
    try:
        spec = find_spec(top) if top else None
    except (ImportError, ValueError, AttributeError):
        return ""
    if spec is None:
        return ""
    folders = list(spec.submodule_search_locations or ())
    origin = spec.origin or (folders[0] if folders else "")
    return str(Path(origin).resolve()) if "/" in origin or os.sep in origin else origin


def trusted() -> Trusted:
    """Read the list; if it cannot be read, nothing is confirmed."""
    try:
        lines = list_path().read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, RuntimeError):  # RuntimeError: no home folder
        return Trusted()
    files, modules, places = set(), set(), set()
    for line in lines:
        try:
            entry: Any = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(entry, Mapping):
            continue
        if isinstance(entry.get("sha256"), str):
            files.add(entry["sha256"])
        if isinstance(entry.get("module"), str) and isinstance(entry.get("origin"), str):
            modules.add((entry["module"], entry["origin"]))
        if isinstance(entry.get("place"), str):
            places.add(entry["place"])
    return Trusted(frozenset(files), frozenset(modules), frozenset(places))


def confirm(
    files: Mapping[str, str], modules: Iterable[str] = (), places: Iterable[str] = ()
) -> None:
    """Add files, modules and places to the list, unless they are already there.

    Args:
        files: File names by SHA-256; the names are for people.
        modules: Names of modules.
        places: Folders and addresses that loggers write to.

    Raises:
        ClframeError: The list cannot be written.
    """
    confirmed = trusted()
    entries: list[dict[str, str]] = [
        {"sha256": sha256, "file": name}
        for sha256, name in files.items()
        if sha256 not in confirmed.files
    ]
    entries += [
        {"module": name, "origin": origin_of(name)}
        for name in modules
        if not confirmed.has_module(name)
    ]
    entries += [{"place": place} for place in places if place not in confirmed.places]
    if not entries:
        return
    try:
        path = list_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        _append(path, "".join(json.dumps(entry) + "\n" for entry in entries).encode())
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ClframeError(f"the list of confirmed code cannot be written: {reason}") from error


def _append(path: Path, lines: bytes) -> None:
    """Append whole lines in one write, so that concurrent processes do not mix lines."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":  # incomplete after a loss of power
            lines = b"\n" + lines
        os.write(descriptor, lines)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
