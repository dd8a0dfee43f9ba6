"""Comparison with single-task experts (STE): relative performance and sample efficiency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clframe.metrics.info import MetricInfo, metric
from clframe.metrics.l2.log_checks import Floats, Ints
from clframe.metrics.l2.profiles import Settings
from clframe.metrics.l2.regime_metrics import saturation, slope
from clframe.metrics.l2.regimes import Regime, mean_per_experience


@dataclass
class Curve:
    """The learning regimes of one task in a row."""

    exp_num: Ints
    value: Floats

    @classmethod
    def of(cls, regimes: Sequence[Regime]) -> Curve:
        """Concatenate regimes in order."""
        return cls(
            np.concatenate([r.exp_num for r in regimes]), np.concatenate([r.value for r in regimes])
        )


def averaged(experts: Sequence[Curve]) -> list[Curve]:
    """Truncate the curves to the shortest and average them, for the STE averaging method `time`."""
    shortest = min(len(curve.value) for curve in experts)
    mean = np.mean([curve.value[:shortest] for curve in experts], axis=0)
    return [Curve(np.arange(shortest), mean)]


@metric(
    MetricInfo(
        "ste_rel_perf", "sum of the task's first m LX / sum of the expert's first m; 1 = equal",
        "performance over that of experts, 1 = equal", low=0,
    ),
    family="l2",
    paper="New et al., 2022",
)  # fmt: skip
def relative_performance(
    curve: Curve, experts: Sequence[Curve], reference: bool = False
) -> list[float | None]:
    """Return RP against each expert: the sums of the first m values, divided.

    m is the shorter of the two lengths. Above 1: better than the expert. None if the expert's
    sum is 0; the profile `reference` divides by it, as that program does.
    """
    ratios: list[float | None] = []
    for expert in experts:
        m = min(len(curve.value), len(expert.value))
        above, below = float(curve.value[:m].sum()), float(expert.value[:m].sum())
        ratios.append(quotient(above, below) if reference or below != 0 else None)
    return ratios


def quotient(above: float, below: float) -> float:
    """Return the quotient by IEEE rules: x/0 is infinite, 0/0 is NaN.

    >>> quotient(1.0, 4.0), quotient(-1.0, 0.0), quotient(0.0, 0.0)
    (0.25, -inf, nan)
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.float64(above) / np.float64(below))


def mean(values: Sequence[float]) -> float | None:
    """Return the mean of all values but NaN, or None if there are none.

    >>> mean([1.0, float("nan"), 2.0]), mean([float("inf"), 1.0]), mean([float("nan")])
    (1.5, inf, None)
    """
    numbers = [value for value in values if not math.isnan(value)]
    if not numbers:
        return None
    with np.errstate(invalid="ignore"):
        value = float(np.mean(numbers))
    return None if math.isnan(value) else value  # infinities of both signs


@metric(
    MetricInfo(
        "sample_efficiency", "(sat / sat_STE) (ets_STE / ets); 1 = equal",
        "saturation and speed over experts'", low=0,
    ),
    family="l2",
    paper="New et al., 2022",
)  # fmt: skip
def sample_efficiency(
    curve: Curve, experts: Sequence[Curve], settings: Settings
) -> tuple[dict[str, Any], list[str]]:
    """Return SE against each expert: (sat / sat_STE) * (ets_STE / ets); above 1 is better.

    ``sat`` is the saturation value of the concatenated learning curve and ``ets`` the experiences
    it takes to reach it. An expert that saturates at once or at 0 is skipped. The profile
    `reference` follows the rules of that program: no value if ets is 0, 0 if the saturation is
    below a fifth of the expert's or if the curve falls, and it divides by an expert's saturation of
    0.

    Returns:
        The value ``sample_efficiency`` with the lists it was computed from, and remarks.
    """
    top, when = saturation(mean_per_experience(curve.exp_num, curve.value), settings)
    result: dict[str, Any] = {
        "sample_efficiency": None,
        "ste_saturation_vals": [],
        "ste_exp_to_sat_vals": [],
        "se_saturation_vals": [],
        "se_exp_to_sat_vals": [],
        "sample_efficiency_vals": [],
        "se_task_saturation": top,
        "se_task_exp_to_sat": float(when),
    }
    notes = []
    if when == 0:
        return result, ["its curve is highest at the start, so it has no sample efficiency."]
    falling = settings.reference and (slope(curve.exp_num, curve.value) or 0.0) < 0
    for expert in experts:
        expert_top, expert_when = saturation(
            mean_per_experience(expert.exp_num, expert.value), settings
        )
        if expert_when == 0 or (expert_top == 0 and not settings.reference):
            notes.append("one of its experts saturates at once or at 0 and is skipped.")
            continue
        ratio = quotient(top, expert_top)
        value = ratio * (expert_when / when)
        if settings.reference and (falling or top < 0.2 * expert_top):
            value = 0.0
        result["ste_saturation_vals"].append(expert_top)
        result["ste_exp_to_sat_vals"].append(expert_when)
        result["se_saturation_vals"].append(ratio)
        result["se_exp_to_sat_vals"].append(expert_when / when)
        result["sample_efficiency_vals"].append(value)
    result["sample_efficiency"] = mean(result["sample_efficiency_vals"])
    return result, notes
