"""The train-test matrix, checked, with the row at which each task is learned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clframe.errors import SettingError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
TaskOfRow = Sequence[int | Iterable[int]]
# None means "not measured", as in results.json.
Table = ArrayLike | Sequence[Sequence[float | None]]
Vector = ArrayLike | Sequence[float | None]


@dataclass(frozen=True)
class Learned:
    """A checked matrix with the row at which each task is learned."""

    values: Floats
    now: Bools  # now[i, j]: row i learns column j
    seen: Bools  # seen[i, j]: row i or an earlier one learned column j
    first: NDArray[np.intp]  # first row that learns the column; only valid where `ever`
    last: NDArray[np.intp]  # last row that learns the column; only valid where `ever`
    ever: Bools

    @property
    def old(self) -> Bools:
        """Columns learned at some row, but not at the final one: only these can be forgotten."""
        old: Bools = self.ever & ~self.now[-1]
        return old


def learned_matrix(R: Table, task_of_row: TaskOfRow | None) -> Learned:
    """Check a matrix and return which row learns which column."""
    values = _matrix(R)
    now = learned_columns(values.shape, task_of_row)
    rows = len(now)
    return Learned(
        values=values,
        now=now,
        seen=np.logical_or.accumulate(now, axis=0),
        first=now.argmax(axis=0),
        last=rows - 1 - now[::-1].argmax(axis=0),
        ever=np.logical_or.reduce(now, axis=0),
    )


def _matrix(R: Table) -> Floats:
    try:
        values = np.asarray(R, dtype=np.float64)
    except (TypeError, ValueError):
        raise SettingError(
            "R must be a rectangular table of numbers (NaN or None where not measured), "
            "one row per experience and one column per task."
        ) from None
    if values.ndim != 2 or 0 in values.shape:
        raise SettingError(
            "R must have two dimensions, one row per experience and one column per task, "
            f"but its shape is {values.shape}."
        )
    _refuse_infinite(values, "R")
    return values


def learned_columns(shape: tuple[int, ...], task_of_row: TaskOfRow | None) -> Bools:
    """Return which row learns which column, or raise SettingError for a bad `task_of_row`."""
    rows, columns = shape[:2]
    if task_of_row is None:
        if rows > columns:
            raise SettingError(
                f"There are {rows} rows but only {columns} columns, so tasks recur: pass "
                "task_of_row, the column learned at each row."
            )
        return np.eye(rows, columns, dtype=bool)
    if len(task_of_row) != rows:
        raise SettingError(
            f"task_of_row has {len(task_of_row)} entries but there are {rows} rows: "
            "it must name the column learned at each row."
        )
    now = np.zeros((rows, columns), dtype=bool)
    for row, entry in enumerate(task_of_row):
        for column in entry if isinstance(entry, Iterable) else (entry,):
            if not isinstance(column, int | np.integer) or not 0 <= column < columns:
                raise SettingError(
                    f"task_of_row[{row}] is {column!r}, but it must be a column from 0 to "
                    f"{columns - 1}."
                )
            now[row, column] = True
    return now


def vector_of(values: Vector, length: int, name: str, of: str = "column") -> Floats:
    """Return one number per column (or row) of R, or raise SettingError for another shape."""
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise SettingError(f"{name} must be a list of numbers, one per {of} of R.") from None
    if vector.shape != (length,):
        raise SettingError(
            f"{name} must have {length} values, one per {of} of R, but its shape is {vector.shape}."
        )
    _refuse_infinite(vector, name)
    return vector


def _refuse_infinite(values: Floats, name: str) -> None:
    if np.isinf(values).any():
        indices = ", ".join(str(index[0]) for index in np.nonzero(np.isinf(values)))
        raise SettingError(
            f"{name} is infinite at index [{indices}]; values must be finite, "
            "or NaN where not measured."
        )


def mean(values: Floats) -> float | None:
    """Return the mean, or None if there are no values or one was not measured."""
    if values.size == 0 or np.isnan(values).any():
        return None
    return float(values.mean())


def mean_of_known(values: Sequence[float | None]) -> float | None:
    """Return the mean, or None if there are no values or one of them is None."""
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if numbers and len(numbers) == len(values) else None


def plain(values: Floats) -> list[float | None]:
    """Return plain numbers with None in place of NaN."""
    return [None if np.isnan(value) else float(value) for value in values]
