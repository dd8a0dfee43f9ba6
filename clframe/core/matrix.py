"""The train-test accuracy matrix: what everything else is computed from."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

BEFORE = "before"
"""Name of the row of the untrained model."""

Cells = Sequence[Sequence[float | None]]
"""Values by row and column; None where nothing was measured."""


class AccuracyMatrix:
    """One row per learned experience (and one before), one column per task.

    Args:
        columns: Names of the tasks.
        measure: What the values are.

    Example:
        >>> matrix = AccuracyMatrix(["dogs", "cats"])
        >>> matrix.add_row("before", {"dogs": 0.5, "cats": 0.5})
        >>> matrix.add_row("dogs", {"dogs": 0.9, "cats": 0.4})
        >>> matrix.add_row("cats", {"dogs": 0.6, "cats": 0.8})
        >>> matrix.learned.tolist()
        [[0.9, 0.4], [0.6, 0.8]]
    """

    def __init__(self, columns: Sequence[str], measure: str = "accuracy") -> None:
        self.columns = list(columns)
        self.measure = measure
        self.rows: list[str] = []
        self._values: list[list[float]] = []

    def add_row(self, name: str, values: Mapping[str, float]) -> None:
        """Append a row; tasks that were not measured stay unknown."""
        self.rows.append(name)
        self._values.append([float(values.get(column, np.nan)) for column in self.columns])

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """All rows, with "before" first; NaN where nothing was measured."""
        return np.array(self._values, dtype=np.float64).reshape(len(self.rows), len(self.columns))

    @property
    def learned(self) -> npt.NDArray[np.float64]:
        """The rows of learned experiences: R[i, j] of the papers."""
        return self.values[[i for i, row in enumerate(self.rows) if row != BEFORE]]

    @property
    def before(self) -> npt.NDArray[np.float64]:
        """The untrained model's row; NaN if it was not measured."""
        if BEFORE in self.rows:
            row: npt.NDArray[np.float64] = self.values[self.rows.index(BEFORE)]
            return row
        return np.full(len(self.columns), np.nan)

    @property
    def cells(self) -> list[list[float | None]]:
        """All rows as plain numbers, with "before" first; None where nothing was measured."""
        return [[None if np.isnan(v) else v for v in row] for row in self._values]

    def to_json(self) -> dict[str, Any]:
        """The form of results.json: unknown cells are null."""
        return {
            "rows": list(self.rows),
            "columns": list(self.columns),
            "values": self.cells,
            "measure": self.measure,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AccuracyMatrix:
        """Read the form of results.json.

        >>> AccuracyMatrix.from_json({"rows": ["a"], "columns": ["x"], "values": [[None]]}).cells
        [[None]]
        """
        matrix = cls(data["columns"], data.get("measure", "accuracy"))
        for name, values in zip(data["rows"], data["values"], strict=True):
            # By position: a foreign file may name two columns alike.
            pairs = zip(matrix.columns, values, strict=True)
            matrix.rows.append(name)
            matrix._values.append([np.nan if value is None else float(value) for _, value in pairs])
        return matrix

    def to_csv(self) -> str:
        """Rows and columns with their names; unknown cells are empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["", *self.columns])
        for name, row in zip(self.rows, self._values, strict=True):
            writer.writerow([name, *("" if np.isnan(v) else repr(v) for v in row)])
        return text.getvalue()


def names_differ(matrices: Sequence[AccuracyMatrix]) -> bool:
    """Whether the matrices cannot be laid over each other: other rows, columns or measure."""
    return len({(tuple(m.rows), tuple(m.columns), m.measure) for m in matrices}) > 1
