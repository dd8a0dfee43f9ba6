"""How sure each cell of a matrix is: Wilson's interval for the samples or episodes behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clframe.evaluation.episodes import SUCCESS, Measured, outcomes_of
from clframe.recording.results_file import number
from clframe.utils.statistics import wilson

CONFIDENCE = 0.95
_SHARES = ("accuracy", SUCCESS)
"""Shares of samples or episodes; other measures are no proportions."""


@dataclass(frozen=True)
class CellInterval:
    """What is known of one cell.

    Args:
        share: Of the samples or episodes that are right.
        count: How many there are.
        low: Lower end of Wilson's interval.
        high: Upper end of it.
    """

    share: float
    count: int
    low: float
    high: float


def is_share(result: Measured) -> bool:
    """Whether the matrix holds shares of samples or episodes."""
    return result.matrix.measure in _SHARES


def intervals_of(result: Measured) -> dict[tuple[int, int], CellInterval]:
    """The interval of each cell, by row and column; none where the number is not known.

    Where the matrix holds another measure, such as Q, the intervals are those of the success rate
    of the same episodes.
    """
    episodes = outcomes_of(result)
    counts = samples_of(result)
    found: dict[tuple[int, int], CellInterval] = {}
    for i, row in enumerate(result.matrix.cells):
        for j, value in enumerate(row):
            cell = episodes.get((i, j))
            count = len(cell.success) if cell else counts.get(result.matrix.columns[j])
            if not is_share(result):
                value = sum(cell.success) / len(cell.success) if cell else None
            if count and value is not None and 0 <= value <= 1:
                found[i, j] = CellInterval(value, count, *wilson(value, count, CONFIDENCE))
    return found


def samples_of(result: Measured) -> dict[str, int]:
    """On how many samples (or episodes) each task was measured; empty where that is not known."""
    found = result.measured.get("evaluation", {}).get("samples")
    if not is_share(result) or not isinstance(found, Mapping):
        return {}
    counts = {str(task): number(count) for task, count in found.items()}
    return {task: int(count) for task, count in counts.items() if count and count >= 1}


def intervals_json(result: Measured) -> dict[str, Any] | None:
    """The form of results.json, rows and columns as in the matrix; None where nothing is known."""
    known = intervals_of(result)
    if not known:
        return None
    measure = result.matrix.measure if is_share(result) else SUCCESS
    places = [
        [known.get((i, j)) for j in range(len(result.matrix.columns))]
        for i in range(len(result.matrix.rows))
    ]
    shares = {"values": [[c and c.share for c in row] for row in places]}
    return {
        "method": "wilson",
        "confidence": CONFIDENCE,
        "measure": measure,
        **({} if measure == result.matrix.measure else shares),
        "count": [[c and c.count for c in row] for row in places],
        "low": [[c and c.low for c in row] for row in places],
        "high": [[c and c.high for c in row] for row in places],
    }


def final_interval(result: Measured) -> tuple[int, float, float] | None:
    """Samples and Wilson's interval of the mean over tasks at the end.

    None unless all tasks have as many samples, so that the mean is a share of all of them.
    """
    known = intervals_of(result)
    last = len(result.matrix.rows) - 1
    cells = [known.get((last, j)) for j in range(len(result.matrix.columns))]
    there = [cell for cell in cells if cell is not None]
    if not there or len(there) < len(cells) or len({cell.count for cell in there}) > 1:
        return None
    total = sum(cell.count for cell in there)
    share = min(1.0, math.fsum(cell.share for cell in there) / len(there))
    return total, *wilson(share, total, CONFIDENCE)
