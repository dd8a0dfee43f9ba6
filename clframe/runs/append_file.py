"""Files that only grow: what they held at a checkpoint, and back to that.

A resumed run first returns to the start of an experience and then to a step within it, so a file is
truncated only when something is written to it again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from clframe.utils.checksums import PrefixSum, check_mark
from clframe.utils.console import warn_user


class AppendOnlyFile:
    """A text file to whose end lines are added.

    Args:
        path: Where it is.
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
        """How long the file is, and its sum."""
        return self._sum.mark() if self._rollback_to is None else self._rollback_to

    def rollback(self, mark: dict[str, Any]) -> None:
        """Drop what was written after the file had this mark."""
        self._rollback_to = check_mark(mark)


def truncate(path: Path, length: int) -> None:
    """Drop what was written after the file had this length.

    A file that somebody shortened or removed is no reason to lose the run where that is allowed
    (``resume.allow=[files]``): a notice says so, and the rest is written after what is left.
    """
    size = path.stat().st_size if path.exists() else 0
    if size < length:
        warn_user(f"'{path}' was {length} bytes long and is now {size}; the missing part is lost")
    elif size > length:
        os.truncate(path, length)
