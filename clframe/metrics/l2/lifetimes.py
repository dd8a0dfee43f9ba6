"""Several lifetimes of one agent: the same metrics with mean, standard error and interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clframe.errors import SettingError
from clframe.metrics.l2.evaluate import evaluate
from clframe.metrics.l2.log_rows import read_rows
from clframe.metrics.l2.result import L2Result
from clframe.utils.statistics import Summary, summarize


@dataclass
class LifetimesResult:
    """Results of the single lifetimes, and a summary of each metric over those that have it."""

    lifetimes: list[L2Result]
    summary: dict[str, Summary | None]

    def summary_dict(self) -> dict[str, dict[str, float | int | None] | None]:
        """Return the summary as plain values."""
        return {name: None if s is None else dict(vars(s)) for name, s in self.summary.items()}


def evaluate_lifetimes(
    lifetimes: Sequence[object],
    ste: Sequence[object] = (),
    profile: str = "paper",
    shared_range: bool | None = None,
    confidence: float = 0.95,
    **settings: Any,
) -> LifetimesResult:
    """Evaluate several lifetimes and summarize them.

    Args:
        lifetimes: Logs, in any form that `evaluate` accepts.
        ste: Logs of single-task experts, used for every lifetime.
        profile: ``paper`` or ``reference``.
        shared_range: Scale each task by one range over all lifetimes, so that they can be
            compared; default: yes for `paper`, no for `reference`.
        confidence: Confidence level of the interval around each mean.
        **settings: The same as for `evaluate`.
    """
    if not lifetimes:
        raise SettingError("There is no lifetime to evaluate: give at least one log.")
    logs = [read_rows(source) for source in lifetimes]
    experts = [read_rows(source) for source in ste]
    results = [evaluate(log, experts, profile, **settings) for log in logs]
    share = profile == "paper" if shared_range is None else shared_range
    if share and len(logs) > 1 and settings.get("data_range") is None:
        ranges = _joint([result.normalization_data_range for result in results])
        if ranges:
            results = [
                evaluate(log, experts, profile, **{**settings, "data_range": ranges})
                for log in logs
            ]
    names = list(dict.fromkeys(name for result in results for name in result.lifetime))
    summary: dict[str, Summary | None] = {}
    for name in names:
        values = [result.lifetime.get(name) for result in results]
        finite = [value for value in values if value is not None and math.isfinite(value)]
        summary[name] = summarize(finite, confidence) if finite else None
    return LifetimesResult(results, summary)


def _joint(
    ranges: Sequence[Mapping[str, Mapping[str, float]] | None],
) -> dict[str, dict[str, float]]:
    """Return the widest range of each task."""
    joint: dict[str, dict[str, float]] = {}
    for bounds_by_task in ranges:
        for task, bounds in (bounds_by_task or {}).items():
            widest = joint.setdefault(task, dict(bounds))
            widest["min"] = min(widest["min"], bounds["min"])
            widest["max"] = max(widest["max"], bounds["max"])
    return joint
