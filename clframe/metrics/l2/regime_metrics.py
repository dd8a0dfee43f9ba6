"""Numbers of a single regime, and recovery, which compares successive regimes of one task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from clframe.metrics.info import MetricInfo, metric
from clframe.metrics.l2.log_checks import Floats
from clframe.metrics.l2.preprocess import smooth
from clframe.metrics.l2.profiles import Settings
from clframe.metrics.l2.regimes import Regime

# Averages of equal numbers differ in the last digits: a plateau is equal up to this relative error.
TOLERANCE = 1e-9


@dataclass
class Measured:
    """A regime with its numbers; those that do not apply are None."""

    regime: Regime
    saturation: float
    exp_to_sat: int
    term_perf: float
    exp_to_term_perf: int
    avg_perf: float | None
    recovery_time: int | None = None
    droop: float | None = None
    recovery_rate: float | None = None
    maintenance: dict[str, float] = field(default_factory=dict)


def measure(regime: Regime, settings: Settings) -> Measured:
    """Compute saturation, terminal and average performance of a regime.

    Terminal performance is the mean of the last 10 % of a learning regime (at least one experience)
    and the mean of an evaluation regime; ``exp_to_term_perf`` is the middle of that stretch.
    """
    curve = regime.curve()
    n = len(curve)
    top, when = saturation(curve, settings)
    return Measured(
        regime=regime,
        saturation=top,
        exp_to_sat=when,
        term_perf=float(curve[9 * n // 10 :].mean() if regime.train else curve.mean()),
        exp_to_term_perf=19 * n // 20 if regime.train else n // 2,
        avg_perf=float(regime.value.mean()),
    )


def saturation(curve: Floats, settings: Settings) -> tuple[float, int]:
    """Return the highest value of the moving average and the experiences needed to reach it.

    The preprocessed curve already is a moving average unless smoothing is off. The count starts at
    1, and a value within rounding error of the highest counts as reaching it. The profile
    `reference` smooths a second time, counts from 0 and compares exactly.
    """
    if settings.reference:
        curve = smooth(curve, lag=True)
        return float(curve.max()), int(curve.argmax())
    if settings.smoothing_method == "none":
        curve = smooth(curve)
    top = float(curve.max())
    reached = curve >= top - TOLERANCE * max(abs(top), abs(float(curve.min())))
    return top, int(reached.argmax()) + 1


@metric(
    MetricInfo(
        "droop", "terminal performance before minus the lowest value before recovery, at least 0",
        "fall below the earlier level after a change", higher_is_better=False, low=0, high=100,
    ),
    MetricInfo(
        "recovery_rate", "droop / recovery time; 0 if it never recovers",
        "performance regained per experience", low=0, high=100,
    ),
    family="l2",
    paper="New et al., 2022",
)  # fmt: skip
def fill_recovery(learning: Sequence[Measured], settings: Settings) -> list[int]:
    """Compare each learning regime of one task with the one before it.

    Recovery time: the number of experiences before performance is back at the terminal performance
    of the previous regime (0 if it starts there). If it never is, all of them (one more than there
    are rows under the profile `reference`). Droop: how far performance falls below that level
    before it recovers, at least 0. Recovery rate: droop divided by recovery time, 0 if it never
    recovers, None if there was no droop.

    Args:
        learning: The wake learning regimes of one task, in order; their fields are filled in.
        settings: The profile decides how "never" counts.

    Returns:
        The recovery times.
    """
    times = []
    for before, now in pairwise(learning):
        goal = before.term_perf
        curve = now.regime.curve()
        slack = 0.0 if settings.reference else TOLERANCE * abs(goal)
        reached = curve >= goal - slack
        back = bool(reached.any())
        time = int(reached.argmax()) if back else len(curve)
        now.recovery_time = time
        if not back and settings.reference:
            now.recovery_time = now.regime.length + 1
        times.append(now.recovery_time)
        now.droop = max(0.0, float(goal - curve[:time].min())) if time else 0.0
        if now.droop > 0:
            now.recovery_rate = now.droop / time if back else 0.0
    return times


def theil_sen(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return the median slope of all pairs of points, or None for fewer than two points.

    Beyond 2000 points, which have millions of pairs, each point is paired only with the one half
    the range ahead (the incomplete Theil-Sen estimator), so that time and memory stay linear.

    >>> theil_sen([0, 1, 2], [1.0, 3.0, 9.0])
    4.0
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    n = len(x)
    if n < 2:
        return None
    if n <= 2000:
        first, second = np.triu_indices(n, k=1)
    else:
        first = np.arange(n - n // 2)
        second = first + n // 2
    return float(np.median((y[second] - y[first]) / (x[second] - x[first])))


def slope(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return the least-squares slope, or None for fewer than two different x.

    >>> slope([0, 1, 2], [1.0, 3.0, 5.0])
    2.0
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(x) < 2:
        return None
    centered = x - x.mean()
    spread = float(centered @ centered)
    return float(centered @ (y - y.mean())) / spread if spread > 0 else None
