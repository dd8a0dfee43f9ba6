"""The forgetting tensor: the matrix with two more dimensions, perturbation axis and level.

An evaluator fills it with measures named ``MEASURE@AXIS=LEVEL``, in addition to the one that fills
the matrix, as in ``{"success": 1.0, "success@camera=0.5": 0.4}``. Level 0 is the matrix itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clframe.evaluation.entries import Entries

Cell = dict[tuple[str, float], float]
"""Values of one row and column by axis and level."""


def perturbed_measure(measure: str, axis: str, level: float) -> str:
    """Return the name of a measure under a perturbation.

    >>> perturbed_measure("success", "camera", 0.5)
    'success@camera=0.5'
    """
    return f"{measure}@{axis}={level:g}"


class ForgettingTensor:
    """Values by row, column, axis and level; rows and columns are those of the matrix.

    Args:
        columns: Names of the tasks.

    >>> tensor = ForgettingTensor(["a", "b"])
    >>> tensor.add_row({"a": {"success": 1.0, "success@light=0.5": 0.25}})
    >>> tensor.axes, tensor.levels, tensor.values.shape
    (['light'], [0.5], (1, 2, 1, 1))
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = list(columns)
        self._rows = 0
        self._keys: dict[tuple[str, float], int] = {}
        self._entries = Entries(3)

    def add_row(self, results: Mapping[str, Mapping[str, float]]) -> None:
        """Append each task's measures under perturbations; missing values stay unknown."""
        self._add([_cell(results.get(column, {})) for column in self.columns])

    def _add(self, cells: Sequence[Cell]) -> None:
        """Append a row with one cell per column."""
        positions, values = [], []
        for column, cell in enumerate(cells):
            for key, value in cell.items():
                positions.append((self._rows, column, self._keys.setdefault(key, len(self._keys))))
                values.append(value)
        self._entries.append(positions, values)
        self._rows += 1

    def __bool__(self) -> bool:
        """Return whether anything was measured under perturbations."""
        return bool(self._keys)

    @property
    def axes(self) -> list[str]:
        """The perturbation axes, in the order of measurement."""
        return list(dict.fromkeys(axis for axis, _ in self._keys))

    @property
    def levels(self) -> list[float]:
        """The levels, ascending."""
        return sorted({level for _, level in self._keys})

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """The values by row, column, axis and level; NaN if not measured."""
        axes, levels = self.axes, self.levels
        dense = np.full((self._rows, len(self.columns), len(axes), len(levels)), np.nan)
        if self._keys:
            where = np.array([(axes.index(a), levels.index(b)) for a, b in self._keys])
            row, column, key = self._entries.places.T
            dense[(row, column, *where[key].T)] = self._entries.values
        return dense

    def state_dict(self) -> dict[str, Any]:
        """Return the form of a checkpoint: the measured cells, as arrays."""
        keys = [[axis, level] for axis, level in self._keys]
        return {"rows": self._rows, "keys": keys, **self._entries.state_dict()}

    @classmethod
    def from_state(cls, columns: Sequence[str], state: Mapping[str, Any]) -> ForgettingTensor:
        """Read the form of a checkpoint."""
        tensor = cls(columns)
        tensor._rows = int(state["rows"])
        tensor._keys = {(axis, level): n for n, (axis, level) in enumerate(state["keys"])}
        tensor._entries.load_state_dict({key: state[key] for key in ("places", "values")})
        return tensor

    def to_json(self) -> dict[str, Any]:
        """Return the form of results.json: unknown cells are null."""
        values = self.values
        cells = values.astype(object)
        cells[np.isnan(values)] = None
        return {"axes": self.axes, "levels": self.levels, "values": cells.tolist()}

    def with_columns(self, columns: Sequence[str]) -> ForgettingTensor:
        """Return the tensor with other columns, by name; missing values stay unknown."""
        other = ForgettingTensor(columns)
        keys, cells = list(self._keys), dict[tuple[int, str], Cell]()
        for (row, column, key), value in zip(
            self._entries.places.tolist(), self._entries.values.tolist(), strict=True
        ):
            cells.setdefault((row, self.columns[column]), {})[keys[key]] = value
        for row in range(self._rows):
            other._add([cells.get((row, name), {}) for name in columns])
        return other

    @classmethod
    def from_json(cls, columns: Sequence[str], data: Mapping[str, Any]) -> ForgettingTensor:
        """Read the form of results.json."""
        tensor = cls(columns)
        keys = list(itertools.product(data["axes"], map(float, data["levels"])))
        for row in data["values"]:
            cells = []
            for column in row:
                numbers = [number for axis in column for number in axis]
                pairs = zip(keys, numbers, strict=True)
                cells.append({key: float(value) for key, value in pairs if value is not None})
            tensor._add(cells)
        return tensor


def _cell(measures: Mapping[str, float]) -> Cell:
    """Return the values of the first measure under perturbations."""
    first = next(iter(measures), "")
    cell: Cell = {}
    for name, value in measures.items():
        measure, at, perturbation = name.partition("@")
        axis, equals, level = perturbation.partition("=")
        if measure == first and at and equals:
            cell[axis, float(level)] = float(value)
    return cell
