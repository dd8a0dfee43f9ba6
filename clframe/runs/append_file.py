"""Files that only grow: how long they were at a checkpoint, and back to that length.

A resumed run first returns to the start of an experience and then to a step within it, so a file is
truncated only when something is written to it again.
"""

from __future__ import annotations

import os
from pathlib import Path

from clframe.utils.console import notice


class AppendOnlyFile:
    """A text file to whose end lines are added.

    Args:
        path: Where it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rollback_to: int | None = None

    def append(self, text: str) -> None:
        """Add text at the end."""
        if self._rollback_to is not None:
            truncate(self.path, self._rollback_to)
            self._rollback_to = None
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)

    def length(self) -> int:
        """How long the file is; what it holds is on disk then."""
        return fsync(self.path) if self._rollback_to is None else self._rollback_to

    def rollback(self, length: int) -> None:
        """Drop what was written after the file had this length."""
        self._rollback_to = length


def fsync(path: Path) -> int:
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


def truncate(path: Path, length: int) -> None:
    """Drop what was written after the file had this length.

    A file that somebody shortened or removed is no reason to lose the run: a notice says so, and
    the rest is written after what is left.
    """
    size = path.stat().st_size if path.exists() else 0
    if size < length:
        notice(f"'{path}' was {length} bytes long and is now {size}; the missing part is lost")
    elif size > length:
        os.truncate(path, length)
