"""Average performance, forgetting and forward transfer of Continual World.

Wołczyk et al., "Continual World: A Robotic Benchmark For Continual Reinforcement Learning",
NeurIPS 2021, Section 4. ``p_i(t)`` is the success rate on task ``i`` at time ``t``; task ``i`` of
``N`` is learned in the interval ``[(i - 1) D, i D]``, and the run ends at ``T = N D``. Tasks are
counted by learning intervals: a task that comes back (CW20) is another ``i``.

>>> R = [[0.9, 0.0], [0.3, 0.8]]
>>> curves, reference = [[0.0, 0.6, 0.9], [0.0, 0.4, 0.8]], [[0.0, 0.6, 0.9], [0.0, 0.8, 0.8]]
>>> result = continual_world(R, curves=curves, reference=reference)
>>> [round(result[key], 4) for key in ("performance", "forgetting", "forward_transfer")]
[0.55, 0.3, -0.25]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from clframe.errors import SettingError
from clframe.metrics.info import MetricInfo, metric
from clframe.metrics.learned import learned_columns

if TYPE_CHECKING:
    from clframe.core.results import Result

Curves = Sequence[Sequence[float] | None]


def area_under(curve: Sequence[float]) -> float:
    """Return ``1/D`` times the integral of ``p(t)`` over the interval, by the trapezoidal rule.

    >>> area_under([0.0, 1.0, 1.0])
    0.75

    Args:
        curve: The success rate at evenly spaced times, including both ends of the interval; a
            single value if nothing was learned and it stayed the same.
    """
    values = np.asarray(curve, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise SettingError("a curve of success rates must be a list of at least one value")
    return float(values[0] if len(values) == 1 else (values[:-1] + values[1:]).mean() / 2)


def forward_transfer(area: float, reference: float) -> float | None:
    """Return ``(AUC - AUC_b) / (1 - AUC_b)``, or None if the reference is perfect from the start.

    >>> forward_transfer(0.75, 0.5)
    0.5
    """
    return None if reference >= 1 else (area - reference) / (1 - reference)


def of_run(result: Result) -> dict[str, Any] | None:
    """Return the arguments for a run of success rates that learned one task after the other."""
    single = all(len(columns) == 1 for columns in result.task_of_row)
    if result.matrix.measure != "success" or not single or not len(result.matrix.learned):
        return None
    names = tasks_of(result)
    rows = result.matrix.rows[-len(names) :]
    return {
        "matrix": result.matrix.learned,
        "task_of_row": result.task_of_row,
        "curves": [result.curves.get(r, {}).get(n) for r, n in zip(rows, names, strict=True)],
    }


def tasks_of(result: Result) -> list[str]:
    """Return the task of each learned row."""
    return [result.matrix.columns[columns[0]] for columns in result.task_of_row]


@metric(
    MetricInfo(
        "performance", "mean over tasks of p_i(T)", "mean success at the end", low=0, high=1
    ),
    MetricInfo(
        "forgetting", "mean over intervals of p_i at the end of its own minus p_i(T)",
        "success when learned minus final", higher_is_better=False, low=-1, high=1,
    ),
    MetricInfo(
        "forward_transfer", "mean of (AUC_i - AUC_i^b) / (1 - AUC_i^b)",
        "area gained on single-task runs", high=1,
    ),
    paper="Wołczyk et al., NeurIPS 2021",
    summary=(
        "Average performance, forgetting, forward transfer (Wołczyk et al., 2021) of success rates."
    ),
    arguments=of_run,
)  # fmt: skip
def continual_world(
    matrix: ArrayLike,
    task_of_row: Sequence[Sequence[int]] | None = None,
    curves: Curves | None = None,
    reference: Curves | None = None,
) -> dict[str, Any]:
    """Return the three metrics of Continual World.

    ``performance`` is the mean of ``p_i(T)``; ``forgetting`` the mean of ``F_i = p_i(i D) -
    p_i(T)``, below zero if later learning helped; ``forward_transfer`` the mean of ``FT_i =
    (AUC_i - AUC_i^b) / (1 - AUC_i^b)``, with ``AUC_i`` the mean of ``p_i`` while task ``i`` is
    learned and ``b`` a run that learns it alone from scratch. The paper averages the last five
    evaluations for ``p_i(T)``; here it is the last row.

    Args:
        matrix: Success rates [row, task] after every learning interval.
        task_of_row: Columns learned at each row; default: row i learns column i.
        curves: For each row, the success rate on its task at evenly spaced times from the start to
            the end of its learning; None if it was not measured.
        reference: The same for the single-task runs, in the order of the rows.

    Returns:
        ``performance, forgetting, forward_transfer``, and per row ``forgetting_i``,
        ``forward_transfer_i``, ``area_i``. Undefined values are None.

    Example:
        >>> R = [[0.9, 0.5], [0.7, 0.8]]  # success on task j after experience i
        >>> scores = continual_world(R)
        >>> round(scores["performance"], 3), round(scores["forgetting"], 3)
        (0.75, 0.1)
    """
    values = np.asarray(matrix, dtype=np.float64)
    if values.ndim != 2 or 0 in values.shape:
        raise SettingError(f"the matrix must be [row, task], but its shape is {values.shape}")
    now = learned_columns(values.shape, task_of_row)
    rows = len(values)
    for name, values_by_row in (("curves", curves), ("reference", reference)):
        if values_by_row is not None and len(values_by_row) != rows:
            raise SettingError(f"{name} has {len(values_by_row)} rows, but the matrix has {rows}")
    tasks = [np.flatnonzero(line) for line in now]
    learned = np.logical_or.reduce(now, axis=0)
    lost = [float((values[i, tasks[i]] - values[-1, tasks[i]]).mean()) for i in range(rows)]
    areas = [None if c is None else area_under(c) for c in curves or [None] * rows]
    bases = [None if c is None else area_under(c) for c in reference or [None] * rows]
    gains = [
        None if a is None or b is None else forward_transfer(a, b)
        for a, b in zip(areas, bases, strict=True)
    ]
    complete = None not in areas and None not in bases
    # A task whose reference is perfect from the start can show no transfer.
    transfers = [gain for gain in gains if gain is not None] if complete else []
    return {
        "performance": _finite_or_none(values[-1, learned].mean()),
        "forgetting": _finite_or_none(np.mean(lost)),
        "forward_transfer": _finite_or_none(np.mean(transfers)) if transfers else None,
        "forgetting_i": [_finite_or_none(value) for value in lost],
        "forward_transfer_i": gains,
        "area_i": areas,
    }


def _finite_or_none(value: float | np.floating[Any]) -> float | None:
    return None if np.isnan(value) else float(value)
