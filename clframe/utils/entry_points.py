"""The entry points of installed packages for clframe."""

from __future__ import annotations

import functools
import os
import sys
from importlib.metadata import EntryPoint, entry_points


def entry_points_of(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, cached until a package is installed or removed.

    Python reads a file of every installed package to find them, and a run asks several times.
    """
    return list(_read(group, tuple((entry, _changed(entry)) for entry in sys.path)))


@functools.lru_cache(maxsize=8)
def _read(group: str, path: tuple[tuple[str, int | None], ...]) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda point: point.name)


def _changed(entry: str) -> int | None:
    """Return when a folder of the path last gained or lost an entry."""
    try:
        return os.stat(entry or os.curdir).st_mtime_ns
    except OSError:
        return None
