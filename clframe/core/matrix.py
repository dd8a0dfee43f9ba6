"""The train-test accuracy matrix, from which all metrics are computed."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clframe.evaluation.entries import Entries

BEFORE = "before"
"""Name of the row of the untrained model."""

Cells = Sequence[Sequence[float | None]]
"""Values by row and column; None where nothing was measured."""


class AccuracyMatrix:
    """A matrix with a row per learned experience, one before learning, and a column per task.

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
        self._entries = Entries(2)

    def add_row(self, name: str, values: Mapping[str, float]) -> None:
        """Append a row; tasks that were not evaluated stay unknown."""
        self._add(name, {n: values[task] for n, task in enumerate(self.columns) if task in values})

    def _add(self, name: str, values: Mapping[int, float]) -> None:
        """Append a row given by column number; NaN means unknown."""
        numbers = ((place, float(value)) for place, value in values.items())
        known = [(place, value) for place, value in numbers if not math.isnan(value)]
        row = len(self.rows)
        self.rows.append(name)
        self._entries.append([(row, place) for place, _ in known], [value for _, value in known])

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """All rows as an array, with "before" first and NaN where nothing was measured."""
        dense = np.full((len(self.rows), len(self.columns)), np.nan)
        dense[tuple(self._entries.places.T)] = self._entries.values
        return dense

    def state_dict(self) -> dict[str, Any]:
        """Return the measured cells as arrays, for a checkpoint."""
        names = {"rows": list(self.rows), "columns": list(self.columns), "measure": self.measure}
        return {**names, **self._entries.state_dict()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> AccuracyMatrix:
        """Make a matrix from :meth:`state_dict`."""
        matrix = cls(state["columns"], state["measure"])
        matrix.rows = list(state["rows"])
        if not all(isinstance(name, str) for name in (*matrix.columns, *matrix.rows)):
            raise ValueError("a row or column of the matrix has no name")
        matrix._entries.load_state_dict({key: state[key] for key in ("places", "values")})
        return matrix

    def with_columns(self, columns: Sequence[str]) -> AccuracyMatrix:
        """Return the same rows with other columns by name; unmeasured cells stay unknown."""
        other = AccuracyMatrix(columns, self.measure)
        for name, row in zip(self.rows, self.values, strict=True):
            other.add_row(name, dict(zip(self.columns, row.tolist(), strict=True)))
        return other

    @property
    def learned(self) -> npt.NDArray[np.float64]:
        """The rows of learned experiences: R[i, j] of the papers."""
        return self.values[[i for i, row in enumerate(self.rows) if row != BEFORE]]

    @property
    def before(self) -> npt.NDArray[np.float64]:
        """The row of the untrained model; NaN if it was not measured."""
        if BEFORE in self.rows:
            row: npt.NDArray[np.float64] = self.values[self.rows.index(BEFORE)]
            return row
        return np.full(len(self.columns), np.nan)

    @property
    def cells(self) -> list[list[float | None]]:
        """All rows as plain numbers, with "before" first and None where nothing was measured."""
        values = self.values
        known = values.astype(object)
        known[np.isnan(values)] = None
        cells: list[list[float | None]] = known.tolist()
        return cells

    def to_json(self) -> dict[str, Any]:
        """Return the matrix as results.json holds it: unknown cells are null."""
        return {
            "rows": list(self.rows),
            "columns": list(self.columns),
            "values": self.cells,
            "measure": self.measure,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AccuracyMatrix:
        """Make a matrix from its form in results.json.

        >>> AccuracyMatrix.from_json({"rows": ["a"], "columns": ["x"], "values": [[None]]}).cells
        [[None]]
        """
        matrix = cls(data["columns"], data.get("measure", "accuracy"))
        for name, values in zip(data["rows"], data["values"], strict=True):
            # Matched by position, because a file from elsewhere may name two columns alike.
            pairs = zip(range(len(matrix.columns)), values, strict=True)
            matrix._add(name, {place: value for place, value in pairs if value is not None})
        return matrix

    def to_csv(self) -> str:
        """Return rows and columns with their names as CSV; unknown cells are empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["", *self.columns])
        for name, row in zip(self.rows, self.cells, strict=True):
            writer.writerow([name, *("" if value is None else repr(value) for value in row)])
        return text.getvalue()


def names_differ(matrices: Sequence[AccuracyMatrix]) -> bool:
    """Return whether matrices differ in rows, columns or measure and cannot be compared."""
    return len({(tuple(m.rows), tuple(m.columns), m.measure) for m in matrices}) > 1
