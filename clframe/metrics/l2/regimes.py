"""Regimes: the stretches of a lifetime in which one task is learned or evaluated.

Under the profile `reference` a regime is a maximal run of consecutive experiences of equal block,
block type, subtype and task. Under `paper` it is all experiences of one block with the same
subtype, task and, in training, task parameters: "same task and parameters". Two evaluations
that alternate row by row (parallel workers) are then two regimes, not many.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clframe.metrics.l2.log_checks import Floats, Ints, Log


@dataclass
class Regime:
    """One regime; `value` is filled in after preprocessing."""

    number: int
    block_num: int
    train: bool
    sleep: bool
    task: str
    rows: NDArray[np.intp]
    exp_num: Ints
    value: Floats

    @property
    def length(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def curve(self) -> Floats:
        """Return one value per experience: rows that share an exp_num are averaged."""
        return mean_per_experience(self.exp_num, self.value)


def find_regimes(log: Log, by_params: bool) -> list[Regime]:
    """Number the regimes of a log in order of their first experience.

    Args:
        log: A checked log.
        by_params: Group by the definition of the paper instead of by consecutive rows.
    """
    params = np.where(log.train, log.params, 0) if by_params else np.zeros_like(log.params)
    keys = (log.block_num, log.train.astype(np.int64), log.sleep.astype(np.int64), log.task, params)
    order: NDArray[np.intp] = np.arange(len(log))
    if by_params:  # group equal rows of a block; stable, so experiences stay in order
        order = np.lexsort(keys[::-1])
    changed = np.zeros(max(len(log) - 1, 0), dtype=bool)
    for key in keys:
        changed |= np.diff(key[order]) != 0
    pieces = np.split(order, np.flatnonzero(changed) + 1)
    pieces.sort(key=lambda rows: int(rows[0]))
    regimes = []
    for number, rows in enumerate(pieces):
        first = rows[0]
        regimes.append(
            Regime(
                number=number,
                block_num=int(log.block_num[first]),
                train=bool(log.train[first]),
                sleep=bool(log.sleep[first]),
                task=log.task_names[log.task[first]],
                rows=rows,
                exp_num=log.exp_num[rows],
                value=log.value[rows],
            )
        )
    return regimes


def mean_per_experience(exp_num: Ints, value: Floats) -> Floats:
    """Average the values of rows that share an experience number.

    >>> mean_per_experience(np.array([3, 4, 4]), np.array([1.0, 2.0, 4.0])).tolist()
    [1.0, 3.0]
    """
    if len(exp_num) < 2 or (np.diff(exp_num) > 0).all():
        return value
    _, index, count = np.unique(exp_num, return_inverse=True, return_counts=True)
    return np.bincount(index, weights=value) / count
