"""Transitions in a file of the run folder that only grows, one row of equal length after another.

The file holds all of a run, so that a checkpoint need not: it says how many rows there were, and
the sum of them. A resumed run first returns to the start of an experience and then to a step within
it, so the file is cut only when something is written to it again. It is written and read, and not
mapped: a full disk would end a process that writes to a mapping without a word.
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
        path: Where it is; made with the first row.
        row: The type of a row.
    """

    def __init__(self, path: Path, row: np.dtype[Any]) -> None:
        self.path, self.row = path, row
        self.rows = 0
        """Rows that belong to the run."""
        self.last_mark: dict[str, Any] = mark_of(b"")
        """What it held of the run when that was last asked for."""
        self._sum: PrefixSum | None = None

    def append(self, rows: NDArray[Any]) -> None:
        """Write rows after those that belong to the run; what is behind them is cut off."""
        there = self._check(self.rows)
        try:
            if there > self.rows * self.row.itemsize:
                os.truncate(self.path, self.rows * self.row.itemsize)
            with self.path.open("ab") as file:
                file.write(rows.tobytes())
        except OSError as error:
            error.filename = str(self.path)  # a write that fails does not say of which file
            raise
        if self._sum is None:
            self._sum = PrefixSum(self.path)
        self.rows += len(rows)

    def mark(self) -> dict[str, Any]:
        """What the file holds of the run."""
        if self._sum is not None:
            self.last_mark = self._sum.mark()
        return self.last_mark

    def rollback(self, mark: dict[str, Any]) -> None:
        """Only what the file held at this mark belongs to the run."""
        self.rows = mark["bytes"] // self.row.itemsize
        self.last_mark, self._sum = dict(mark), None

    def read(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """The rows of these numbers, which ascend."""
        if not len(numbers):
            return np.empty(0, self.row)
        self._check(int(numbers[-1]) + 1)
        stored = np.memmap(self.path, self.row, "r", shape=(int(numbers[-1]) + 1,))
        return np.array(stored[numbers])

    def _check(self, rows: int) -> int:
        """The file's length.

        Raises:
            RunFolderError: It does not hold so many rows any more.
        """
        there = self.path.stat().st_size if self.path.exists() else 0
        if there < rows * self.row.itemsize:
            raise RunFolderError(
                f"'{self.path}' holds {there // self.row.itemsize} transitions, but the run had "
                f"{rows}, from which it learns: put back a copy of it"
            )
        return there
