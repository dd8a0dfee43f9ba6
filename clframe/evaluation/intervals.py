"""The uncertainty of a matrix's cells: Wilson's interval for their samples or episodes."""

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
"""Measures that are shares of samples or episodes; others are not proportions."""


@dataclass(frozen=True)
class CellInterval:
    """A cell's share and its interval.

    Args:
        share: Share of correct samples or successful episodes.
        count: Number of samples or episodes.
        low: Lower end of Wilson's interval.
        high: Upper end of the interval.
    """

    share: float
    count: int
    low: float
    high: float


def is_share(result: Measured) -> bool:
    """Return whether the matrix holds shares of samples or episodes."""
    return result.matrix.measure in _SHARES


def intervals_of(result: Measured) -> dict[tuple[int, int], CellInterval]:
    """Return the interval of each cell, by row and column; none if the number is unknown.

    If the matrix holds another measure, such as Q, the intervals are for the success rate of the
    same episodes.
    """
    episodes = outcomes_of(result)
    counts = samples_of(result)
    intervals: dict[tuple[int, int], CellInterval] = {}
    for i, row in enumerate(result.matrix.cells):
        for j, value in enumerate(row):
            cell = episodes.get((i, j))
            count = len(cell.success) if cell else counts.get(result.matrix.columns[j])
            if not is_share(result):
                value = sum(cell.success) / len(cell.success) if cell else None
            if count and value is not None and 0 <= value <= 1:
                intervals[i, j] = CellInterval(value, count, *wilson(value, count, CONFIDENCE))
    return intervals


def samples_of(result: Measured) -> dict[str, int]:
    """Return the number of samples (or episodes) of each task; empty if it is unknown."""
    samples = result.measured.get("evaluation", {}).get("samples")
    if not is_share(result) or not isinstance(samples, Mapping):
        return {}
    counts = {str(task): number(count) for task, count in samples.items()}
    return {task: int(count) for task, count in counts.items() if count and count >= 1}


def intervals_json(result: Measured) -> dict[str, Any] | None:
    """Return the form of results.json, shaped like the matrix; None if nothing is known."""
    intervals = intervals_of(result)
    if not intervals:
        return None
    measure = result.matrix.measure if is_share(result) else SUCCESS
    grid = [
        [intervals.get((i, j)) for j in range(len(result.matrix.columns))]
        for i in range(len(result.matrix.rows))
    ]
    shares = {"values": [[c and c.share for c in row] for row in grid]}
    return {
        "method": "wilson",
        "confidence": CONFIDENCE,
        "measure": measure,
        **({} if measure == result.matrix.measure else shares),
        "count": [[c and c.count for c in row] for row in grid],
        "low": [[c and c.low for c in row] for row in grid],
        "high": [[c and c.high for c in row] for row in grid],
    }


def final_interval(result: Measured) -> tuple[int, float, float] | None:
    """Return samples and Wilson's interval of the mean over tasks at the end.

    None unless all tasks have the same number of samples, so that the mean is a share of all of
    them.
    """
    intervals = intervals_of(result)
    last = len(result.matrix.rows) - 1
    cells = [intervals.get((last, j)) for j in range(len(result.matrix.columns))]
    measured = [cell for cell in cells if cell is not None]
    if not measured or len(measured) < len(cells) or len({cell.count for cell in measured}) > 1:
        return None
    total = sum(cell.count for cell in measured)
    share = min(1.0, math.fsum(cell.share for cell in measured) / len(measured))
    return total, *wilson(share, total, CONFIDENCE)
