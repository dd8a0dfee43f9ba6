"""Append-only files: their length at a checkpoint, and truncation back to it.

A resumed run first returns to the start of an experience and then to a step within it, so a file
is truncated only when it is next written to.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from clframe.utils.checksums import PrefixSum, check_mark
from clframe.utils.console import warn_user


class AppendOnlyFile:
    """A text file that only grows at its end.

    Args:
        path: Path of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sum = PrefixSum(path)
        self._rollback_to: dict[str, Any] | None = None
        self._length = 0

    def append(self, text: str) -> None:
        """Add text at the end."""
        if self._rollback_to is not None:
            truncate(self.path, self._rollback_to["bytes"])
            self._rollback_to, self._sum = None, PrefixSum(self.path)
        with self.path.open("a", encoding="utf-8") as file:
            if file.tell() < self._length:
                warn_user(
                    f"'{self.path}' was shortened or removed during the run; "
                    f"{self._length - file.tell()} bytes of it are lost"
                )
            file.write(text)
            self._length = file.tell()

    def mark(self) -> dict[str, Any]:
        """Return the length of the file and its checksum."""
        return self._sum.mark() if self._rollback_to is None else self._rollback_to

    def rollback(self, mark: dict[str, Any]) -> None:
        """Truncate the file to this mark."""
        self._rollback_to = check_mark(mark)


def truncate(path: Path, length: int) -> None:
    """Truncate a file to this length.

    With ``resume.allow=[files]``, a file that somebody shortened or removed does not stop the run:
    a warning reports it, and new text is written after the remaining text.
    """
    size = path.stat().st_size if path.exists() else 0
    if size < length:
        warn_user(f"'{path}' was {length} bytes long and is now {size}; the missing part is lost")
    elif size > length:
        os.truncate(path, length)
