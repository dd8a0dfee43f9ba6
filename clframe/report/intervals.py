"""Confidence intervals of a single run's numbers, as text for the report."""

from __future__ import annotations

from clframe.core.matrix import Cells
from clframe.core.results import Result
from clframe.evaluation import intervals
from clframe.report.metric_formats import format_value
from clframe.utils.statistics import Summary


def cell_intervals(result: Result) -> dict[tuple[int, int], str]:
    """Return Wilson's interval of each cell of the matrix as text, by row and column, if known.

    If the matrix does not hold a share, it is the interval of the success rate.
    """
    prefix = "" if intervals.is_share(result) else "success "
    cells = intervals.intervals_of(result)
    return {position: f"{prefix}[{_span(cell.low, cell.high)}]" for position, cell in cells.items()}


def ends(result: Result) -> tuple[Cells, Cells] | None:
    """Return lower and upper ends of the cells' intervals; None if the matrix holds no shares."""
    bounds = intervals.intervals_json(result) if intervals.is_share(result) else None
    return None if bounds is None else (bounds["low"], bounds["high"])


def final_interval(result: Result) -> str:
    """Return Wilson's interval of the final mean over tasks, if all have the same sample count."""
    interval = intervals.final_interval(result)
    if interval is None or not intervals.is_share(result):
        return ""
    total, low, high = interval
    return f"95 % of {total} samples: [{_span(low, high)}]"


def seeds_interval(summary: Summary) -> str:
    """Return Student's t interval over seeds as text; empty for a single seed."""
    if summary.low is None or summary.high is None:
        return ""
    return f"[{_span(summary.low, summary.high)}]"


def _span(low: float, high: float) -> str:
    return f"{format_value(low, 3)}, {format_value(high, 3)}"
