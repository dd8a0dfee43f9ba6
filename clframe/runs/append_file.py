"""Files that only grow: how long they were at a checkpoint, and back to that length.

A run that is taken up first goes to the start of an experience and then on into it, so a file is
cut only when something is written to it again.
"""

from __future__ import annotations

import os
from pathlib import Path

from clframe.utils.console import notice


class GrowingFile:
    """A text file to whose end lines are added.

    Args:
        path: Where it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._back_to: int | None = None

    def append(self, text: str) -> None:
        """Add text at the end."""
        if self._back_to is not None:
            cut(self.path, self._back_to)
            self._back_to = None
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)

    def length(self) -> int:
        """How long the file is; what it holds is on disk then."""
        return settle(self.path) if self._back_to is None else self._back_to

    def go_back(self, length: int) -> None:
        """Drop what was written after the file had this length."""
        self._back_to = length


def settle(path: Path) -> int:
    """Flush what has been written to disk and return the file's length; 0 if there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return 0
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def cut(path: Path, length: int) -> None:
    """Drop what was written after the file had this length.

    A file that somebody shortened or removed is no reason to lose the run: that is said, and the
    rest is written after what is left.
    """
    there = path.stat().st_size if path.exists() else 0
    if there < length:
        notice(f"'{path}' was {length} bytes long and now is {there}; what is missing stays so")
    elif there > length:
        os.truncate(path, length)
