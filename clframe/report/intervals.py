"""How sure the numbers of a single run are, where it is known on how many samples they stand."""

from __future__ import annotations

import math
from collections.abc import Mapping

from clframe.core.results import Result
from clframe.core.results_file import number
from clframe.report.names import format_value
from clframe.utils.statistics import Summary, wilson

# Shares of samples or episodes; other measures are no proportions.
_SHARES = ("accuracy", "success")


def samples_of(result: Result) -> dict[str, int]:
    """On how many samples (or episodes) each task was measured; empty where that is not known."""
    found = result.measured.get("evaluation", {}).get("samples")
    if result.matrix.measure not in _SHARES or not isinstance(found, Mapping):
        return {}
    counts = {str(task): number(count) for task, count in found.items()}
    return {task: int(count) for task, count in counts.items() if count and count >= 1}


def cell_interval(result: Result, task: str, value: float | None) -> str:
    """Wilson's interval of a cell of the matrix as text; empty where it is not known."""
    count = samples_of(result).get(task)
    if count is None or value is None or not 0 <= value <= 1:
        return ""
    low, high = wilson(value, count)
    return f"[{_span(low, high)}]"


def final_interval(result: Result) -> str:
    """Wilson's interval of the mean over tasks at the end, where all have as many samples."""
    counts = samples_of(result)
    last = result.matrix.cells[-1] if result.matrix.rows else []
    sizes = {counts.get(task) for task in result.matrix.columns}
    values = [value for value in last if value is not None]
    size = sizes.pop() if len(sizes) == 1 else None
    if size is None or not values or len(values) != len(last):
        return ""
    total = size * len(values)
    low, high = wilson(min(1.0, math.fsum(values) / len(values)), total)
    return f"95 % of {total} samples: [{_span(low, high)}]"


def seeds_interval(summary: Summary) -> str:
    """Student's t interval over seeds as text; empty for a single seed."""
    if summary.low is None or summary.high is None:
        return ""
    return f"[{_span(summary.low, summary.high)}]"


def _span(low: float, high: float) -> str:
    return f"{format_value(low, 3)}, {format_value(high, 3)}"
