"""Transitions in an append-only file of the run folder, in rows of equal length.

The file holds all transitions of a run, so a checkpoint only stores the number of rows and their
checksum. A resumed run first returns to the start of an experience and then to a step within it, so
the file is truncated only when something is appended again. It is not memory-mapped for writing: a
full disk would kill a process that writes to a mapping without a message.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import RunFolderError
from clframe.utils.checksums import PrefixSum, mark_of

NAME = "transitions.bin"


class TransitionFile:
    """Rows of a structured type.

    Args:
        path: The file, created with the first row.
        row: The type of a row.
    """

    def __init__(self, path: Path, row: np.dtype[Any]) -> None:
        self.path, self.row = path, row
        self.rows = 0
        """Rows that belong to the run."""
        self.last_mark: dict[str, Any] = mark_of(b"")
        """The content that belongs to the run, as of the last :meth:`mark`."""
        self._sum: PrefixSum | None = None

    def append(self, rows: NDArray[Any]) -> None:
        """Append rows to those that belong to the run; truncate anything after them."""
        length = self._check(self.rows)
        try:
            if length > self.rows * self.row.itemsize:
                os.truncate(self.path, self.rows * self.row.itemsize)
            with self.path.open("ab") as file:
                file.write(rows.tobytes())
        except OSError as error:
            error.filename = str(self.path)  # a failed write does not name its file
            raise
        if self._sum is None:
            self._sum = PrefixSum(self.path)
        self.rows += len(rows)

    def mark(self) -> dict[str, Any]:
        """Return the length and checksum of the content that belongs to the run."""
        if self._sum is not None:
            self.last_mark = self._sum.mark()
        return self.last_mark

    def rollback(self, mark: dict[str, Any]) -> None:
        """Keep only the content up to this mark."""
        self.rows = mark["bytes"] // self.row.itemsize
        self.last_mark, self._sum = dict(mark), None

    def read(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Return the rows with these ascending numbers."""
        if not len(numbers):
            return np.empty(0, self.row)
        self._check(int(numbers[-1]) + 1)
        stored = np.memmap(self.path, self.row, "r", shape=(int(numbers[-1]) + 1,))
        return np.array(stored[numbers])

    def _check(self, rows: int) -> int:
        """Return the file's length.

        Raises:
            RunFolderError: It holds fewer rows.
        """
        length = self.path.stat().st_size if self.path.exists() else 0
        if length < rows * self.row.itemsize:
            raise RunFolderError(
                f"'{self.path}' holds {length // self.row.itemsize} transitions, but the run had "
                f"{rows} and learns from them; restore the file from a copy"
            )
        return length
