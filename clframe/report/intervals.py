"""How sure the numbers of a single run are, as the report writes it."""

from __future__ import annotations

from clframe.core.matrix import Cells
from clframe.core.results import Result
from clframe.evaluation import intervals
from clframe.report.metric_formats import format_value
from clframe.utils.statistics import Summary


def cell_intervals(result: Result) -> dict[tuple[int, int], str]:
    """Wilson's interval of each cell of the matrix as text, by row and column, where it is known.

    Where the matrix holds another measure than a share, it is that of the success rate.
    """
    words = "" if intervals.is_share(result) else "success "
    known = intervals.intervals_of(result)
    return {place: f"{words}[{_span(cell.low, cell.high)}]" for place, cell in known.items()}


def ends(result: Result) -> tuple[Cells, Cells] | None:
    """Lower and upper ends of the cells' intervals; None where the matrix holds no shares."""
    found = intervals.intervals_json(result) if intervals.is_share(result) else None
    return None if found is None else (found["low"], found["high"])


def final_interval(result: Result) -> str:
    """Wilson's interval of the mean over tasks at the end, where all have as many samples."""
    found = intervals.final_interval(result)
    if found is None or not intervals.is_share(result):
        return ""
    total, low, high = found
    return f"95 % of {total} samples: [{_span(low, high)}]"


def seeds_interval(summary: Summary) -> str:
    """Student's t interval over seeds as text; empty for a single seed."""
    if summary.low is None or summary.high is None:
        return ""
    return f"[{_span(summary.low, summary.high)}]"


def _span(low: float, high: float) -> str:
    return f"{format_value(low, 3)}, {format_value(high, 3)}"
