"""Aggregation of task metrics to metrics of the lifetime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from clframe.metrics.l2.profiles import Settings
from clframe.metrics.l2.transfer import DIRECTIONS

_PAPER_ONLY = ("cumulative_gain", "learn_burn", "droop", "recovery_rate")


def lifetime_metrics(
    tasks: Mapping[str, Mapping[str, Any]], settings: Settings
) -> dict[str, float | None]:
    """Aggregate task metrics by mean or median over the tasks that have a value.

    Transfer aggregates the first value of every pair of tasks. Maintenance pools all values of all
    tasks (as worded in the paper); the profile `reference` aggregates task means.
    """

    def over_tasks(key: str) -> float | None:
        return _middle([task[key] for task in tasks.values()], settings)

    result = {key: over_tasks(key) for key in ("perf_recovery", "avg_train_perf", "avg_eval_perf")}
    for kind in settings.maintenance_kinds:
        key = f"perf_maintenance_{kind}"
        if settings.reference:
            result[key] = over_tasks(key)
        else:
            groups = [g for task in tasks.values() for g in task[f"maintenance_val_{kind}"]]
            result[key] = _middle([value for group in groups for value in group], settings)
    for kind in settings.transfer_kinds:
        for direction in DIRECTIONS:
            key = f"{direction}_transfer_{kind}"
            firsts = [values[0] for task in tasks.values() for values in task[key].values()]
            result[key] = _middle(firsts, settings)
    for key in ("ste_rel_perf", "sample_efficiency"):
        result[key] = over_tasks(key)
    if not settings.reference:
        for key in _PAPER_ONLY:
            result[key] = over_tasks(key)
    return result


def _middle(values: list[float | None], settings: Settings) -> float | None:
    numbers = [value for value in values if value is not None]
    if not numbers:
        return None
    with np.errstate(invalid="ignore"):
        middle = np.median(numbers) if settings.aggregation_method == "median" else np.mean(numbers)
    return None if np.isnan(middle) else float(middle)  # infinities of both signs
