"""Metrics of the train-test matrix: OpenLORIS, GEM, forgetting and what follows from them.

Everywhere ``R[i, j]`` is the performance on task ``j`` after learning experience ``i`` (the row of
the untrained model is not part of ``R``), NaN means "not measured", and a metric that needs a cell
that was not measured is ``None``: a mean over fewer cells would be another metric.

Tasks may recur and an experience may hold several tasks. Then ``task_of_row`` names the column, or
the columns, learned at each row; without it row ``i`` learns column ``i``. Tasks that no row learns
count as tasks of the future.

>>> R = [[0.9, 0.5, 0.2], [0.7, 0.8, 0.3], [0.6, 0.7, 1.0]]
>>> {name: round(value, 4) for name, value in openloris(R).items()}
{'accuracy': 0.7833, 'bwt': 0.6667, 'fwt': 0.3333, 'overall': 0.6333}
>>> {name: round(value, 4) for name, value in gem(R, [0.1, 0.1, 0.1]).items()}
{'acc': 0.7667, 'bwt': -0.2, 'fwt': 0.3}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clframe.errors import SettingError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
TaskOfRow = Sequence[int | Iterable[int]]
# None stands for "not measured", as in results.json.
Table = ArrayLike | Sequence[Sequence[float | None]]
Vector = ArrayLike | Sequence[float | None]


@dataclass(frozen=True)
class _Learned:
    """A checked matrix and when each of its tasks is learned."""

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


def openloris(R: Table, task_of_row: TaskOfRow | None = None) -> dict[str, float | None]:
    """Accuracy, BWT, FWT and Over-all of OpenLORIS-Object (She et al., ICRA 2020, Section III).

    Plain averages of parts of the matrix, not differences: ``accuracy`` over the cells of tasks
    learned so far (i >= j), ``bwt`` over tasks learned earlier (i > j), ``fwt`` over tasks still to
    come (i < j), ``overall`` over all cells. Higher is better, range that of the measure (0..1).
    For N tasks learned once each, overall = ((N + 1) accuracy + (N - 1) fwt) / 2N.

    Args:
        R: Matrix of performances, rows in order of learning.
        task_of_row: Column or columns learned at each row; default: row i learns column i.
    """
    m = _learned(R, task_of_row)
    return {
        "accuracy": _mean(m.values[m.seen]),
        "bwt": _mean(m.values[m.seen & ~m.now]),
        "fwt": _mean(m.values[~m.seen]),
        "overall": _mean(m.values.ravel()),
    }


def gem(
    R: Table, b: Vector | None = None, task_of_row: TaskOfRow | None = None
) -> dict[str, float | None]:
    """ACC, BWT and FWT of GEM (Lopez-Paz and Ranzato, NeurIPS 2017, Eq. 2-4).

    acc = mean over learned tasks of R[T, j]; bwt = mean over tasks learned before the last row of
    R[T, j] - R[j, j]; fwt = mean over tasks not learned first of R[j - 1, j] - b[j]. Higher is
    better; acc has the range of the measure, bwt and fwt lie in -1..1 for a measure in 0..1.

    A recurring task is compared with the row that learned it last (bwt), and with the row before it
    was learned first (fwt).

    Args:
        R: Matrix of performances, rows in order of learning.
        b: Performance of the untrained model on each task; without it fwt is None.
        task_of_row: Column or columns learned at each row; default: row i learns column i.
    """
    m = _learned(R, task_of_row)
    columns = np.arange(m.values.shape[1])
    bwt = m.values[-1] - m.values[m.last, columns]
    fwt = None
    if b is not None:
        later = m.ever & (m.first > 0)
        untrained = _vector(b, m.values.shape[1], "b (the performance of the untrained model)")
        fwt = _mean((m.values[m.first - 1, columns] - untrained)[later])
    return {"acc": _mean(m.values[-1][m.ever]), "bwt": _mean(bwt[m.old]), "fwt": fwt}


def forgetting(R: Table, task_of_row: TaskOfRow | None = None) -> dict[str, Any]:
    """Forgetting under its two meanings, each named for what it subtracts.

    ``best_minus_last``: Chaudhry et al., ECCV 2018, Eq. 3: f_j = max over rows l from the one that
    learned j first to the last but one of R[l, j], minus R[T, j]. ``first_minus_last``: the value
    when first learned minus the final one, R[j, j] - R[T, j] (minus GEM's bwt when no task recurs).
    Means over the tasks that the final row does not learn; lower is better, range -1..1. The lists
    ``*_k`` hold one value per column, None where a column has none.

    Args:
        R: Matrix of performances, rows in order of learning.
        task_of_row: Column or columns learned at each row; default: row i learns column i.
    """
    m = _learned(R, task_of_row)
    columns = np.arange(m.values.shape[1])
    # Rows before a task is learned say nothing about what was known and may be unmeasured.
    after = np.where(m.seen, m.values, -np.inf)[:-1]
    best = after.max(axis=0, initial=-np.inf)
    unused = ~m.old
    best_k = np.where(unused, np.nan, np.where(unused, 0.0, best) - m.values[-1])
    first_k = np.where(unused, np.nan, m.values[m.first, columns] - m.values[-1])
    return {
        "best_minus_last": _mean(best_k[m.old]),
        "first_minus_last": _mean(first_k[m.old]),
        "best_minus_last_k": _plain(best_k),
        "first_minus_last_k": _plain(first_k),
    }


def learning_accuracy(R: Table, task_of_row: TaskOfRow | None = None) -> dict[str, Any]:
    """Learning accuracy (Riemer et al., ICLR 2019): mean performance on what was just learned.

    learning_accuracy = mean over rows i of R[i, i]; higher is better, range of the measure. The
    list ``learning_accuracy_k`` has one value per row.

    Args:
        R: Matrix of performances, rows in order of learning.
        task_of_row: Column or columns learned at each row; default: row i learns column i.
    """
    m = _learned(R, task_of_row)
    return {
        "learning_accuracy": _mean(m.values[m.now]),
        "learning_accuracy_k": [_mean(v[now]) for v, now in zip(m.values, m.now, strict=True)],
    }


def intransigence(
    R: Table, joint: Vector | None = None, task_of_row: TaskOfRow | None = None
) -> dict[str, Any]:
    """Intransigence (Chaudhry et al., ECCV 2018, Eq. 5): inability to learn the new task.

    I_i = joint[i] - R[i, i], where joint[i] is the performance on the task of row i of a reference
    model trained on all data up to row i. Lower is better, range -1..1; negative when learning in
    sequence was better than learning jointly.

    Args:
        R: Matrix of performances, rows in order of learning.
        joint: Performance of the joint reference, one value per row; without it the result is None.
        task_of_row: Column or columns learned at each row; default: row i learns column i.
    """
    m = _learned(R, task_of_row)
    rows = len(m.values)
    if joint is None:
        return {"intransigence": None, "intransigence_k": [None] * rows}
    reference = _vector(joint, rows, "joint (the performance of the joint reference)", of="row")
    own = learning_accuracy(R, task_of_row)["learning_accuracy_k"]
    gaps = [
        None if value is None or np.isnan(best) else float(best - value)
        for best, value in zip(reference, own, strict=True)
    ]
    return {"intransigence": _mean_of_known(gaps), "intransigence_k": gaps}


def stability_plasticity(R: Table, task_of_row: TaskOfRow | None = None) -> dict[str, float | None]:
    """Stability, plasticity and their trade-off (as in Sarfraz et al., CoLLAs 2022).

    stability S = mean of R[T, j] over the tasks learned before the final row; plasticity P = mean
    of R[i, i] over rows; tradeoff = their harmonic mean 2SP / (S + P), 0 if both are 0. Higher is
    better, range 0..1 for a measure in 0..1.

    Args:
        R: Matrix of performances, rows in order of learning.
        task_of_row: Column or columns learned at each row; default: row i learns column i.
    """
    m = _learned(R, task_of_row)
    stability = _mean(m.values[-1][m.old])
    plasticity = _mean(m.values[m.now])
    tradeoff = None
    if stability is not None and plasticity is not None:
        total = stability + plasticity
        tradeoff = 2 * stability * plasticity / total if total > 0 else 0.0
    return {"stability": stability, "plasticity": plasticity, "tradeoff": tradeoff}


def average_over_run(R: Table, task_of_row: TaskOfRow | None = None) -> dict[str, Any]:
    """Average incremental accuracy (Rebuffi et al., iCaRL, CVPR 2017, Section 4.1).

    Mean over rows i of A_i = mean over the tasks learned so far of R[i, j]; higher is better, range
    of the measure. Rows weigh equally here, cells do in ``openloris``. ``average_over_run_k`` lists
    A_i.

    Args:
        R: Matrix of performances, rows in order of learning.
        task_of_row: Column or columns learned at each row; default: row i learns column i.
    """
    m = _learned(R, task_of_row)
    per_row = [_mean(v[seen]) for v, seen in zip(m.values, m.seen, strict=True) if seen.any()]
    return {"average_over_run": _mean_of_known(per_row), "average_over_run_k": per_row}


def matrix_metrics(
    R: Table,
    b: Vector | None = None,
    joint: Vector | None = None,
    task_of_row: TaskOfRow | None = None,
) -> dict[str, dict[str, Any]]:
    """Return every metric of this file, each family under its own name.

    Args:
        R: Matrix of performances, rows in order of learning.
        b: Performance of the untrained model on each task, for ``gem.fwt``.
        joint: Performance of a joint reference at each row, for ``intransigence``.
        task_of_row: Column or columns learned at each row; default: row i learns column i.
    """
    return {
        "openloris": dict(openloris(R, task_of_row)),
        "gem": dict(gem(R, b, task_of_row)),
        "forgetting": forgetting(R, task_of_row),
        "learning_accuracy": learning_accuracy(R, task_of_row),
        "intransigence": intransigence(R, joint, task_of_row),
        "stability_plasticity": dict(stability_plasticity(R, task_of_row)),
        "average_over_run": average_over_run(R, task_of_row),
    }


def _learned(R: Table, task_of_row: TaskOfRow | None) -> _Learned:
    values = _matrix(R)
    now = learned_columns(values.shape, task_of_row)
    rows = len(now)
    return _Learned(
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
    """Return which row learns which column, or refuse `task_of_row` with a sentence."""
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


def _vector(values: Vector, length: int, name: str, of: str = "column") -> Floats:
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
        place = ", ".join(str(index[0]) for index in np.nonzero(np.isinf(values)))
        raise SettingError(
            f"{name} is infinite at index [{place}]; values must be finite, "
            "or NaN where not measured."
        )


def _mean(values: Floats) -> float | None:
    """Mean, or None if there is nothing to average or one of the values was not measured."""
    if values.size == 0 or np.isnan(values).any():
        return None
    return float(values.mean())


def _mean_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def _plain(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
