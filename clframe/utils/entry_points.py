"""What installed packages offer clframe, by their entry points."""

from __future__ import annotations

import functools
import os
import sys
from importlib.metadata import EntryPoint, entry_points


def entry_points_of(group: str) -> list[EntryPoint]:
    """The entry points of a group by name; read again once a package has come or gone.

    Python reads a file of every installed package to find them, and a run asks several times.
    """
    return list(_read(group, tuple((entry, _changed(entry)) for entry in sys.path)))


@functools.lru_cache(maxsize=8)
def _read(group: str, path: tuple[tuple[str, int | None], ...]) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda point: point.name)


def _changed(entry: str) -> int | None:
    """When something was put into a folder of the path, or taken out of it."""
    try:
        return os.stat(entry or os.curdir).st_mtime_ns
    except OSError:
        return None
