"""Cumulative gain and learn burn: the trend of learning over a lifetime (New et al., 2022, App. B).

The paper leaves the estimator of its trend lines open. Here every trend is a least-squares line
over the learning experiences of one task, counted 0, 1, 2, ... without gaps.

* Lifetime trend: the line through all learning experiences of the task. Its slope is the average
  learn rate.
* Cumulative gain (CG): the rise of that line from the first to the last experience, i.e. slope
  times (number of experiences - 1). Above 0: the lifetime improved the task. Scale of the
  performance.
* Burn rate of a regime after the first: the slope of the line through that regime alone up to its
  saturation, i.e. while it still learns.
* Learn burn (LB): mean burn rate divided by the average learn rate. Above 1: after a change the
  task is learned faster than over the lifetime on average (the paper's own gloss says the opposite
  of its formula). Undefined if the lifetime trend is flat.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clframe.metrics.info import MetricInfo, metric
from clframe.metrics.l2.profiles import Settings
from clframe.metrics.l2.regime_metrics import TOLERANCE, Measured, slope


@metric(
    MetricInfo(
        "cumulative_gain", "rise of the least-squares line through all LX of the task",
        "rise of the trend over the lifetime",
    ),
    MetricInfo(
        "learn_burn", "mean slope of later regimes up to their saturation / slope of that line",
        "learning rate after a change over lifetime's",
    ),
    family="l2",
    paper="New et al., 2022",
)  # fmt: skip
def trends(
    learning: Sequence[Measured], settings: Settings
) -> tuple[float | None, float | None, list[float]]:
    """Return cumulative gain, learn burn and the burn rates of one task.

    Args:
        learning: The wake learning regimes of the task, in order.
        settings: The profile decides whether exp_to_sat counts from 0 or from 1.
    """
    curves = [item.regime.curve() for item in learning]
    whole = np.concatenate(curves)
    rate = slope(np.arange(len(whole)), whole)
    burn_rates = []
    for item, curve in list(zip(learning, curves, strict=True))[1:]:
        count = item.exp_to_sat + (1 if settings.reference else 0)
        # A regime that starts at its best cannot improve; use all of it then.
        used = curve[:count] if count > 1 else curve
        burn = slope(np.arange(len(used)), used)
        if burn is not None:
            burn_rates.append(burn)
    if rate is None:
        return None, None, burn_rates
    gain = rate * (len(whole) - 1)
    flat = abs(gain) <= TOLERANCE * float(np.abs(whole).max(initial=0.0))
    burn = None if flat or not burn_rates else float(np.mean(burn_rates)) / rate
    return gain, burn, burn_rates
