"""Preprocessing: smooth, clamp, scale (New et al., 2022, "recommended preprocessing").

Performance of different tasks lives on different scales. Each learning curve is smoothed by a
moving average, outliers are clamped to the 10 % and 90 % quantiles of the task, and each task is
scaled to 1..101 so that ratios and contrasts are defined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from clframe.errors import SettingError
from clframe.metrics.l2.log_checks import Floats
from clframe.metrics.l2.profiles import Settings
from clframe.metrics.l2.regimes import Regime

Range = tuple[float, float]

_WINDOWS: dict[str, Callable[[int], Floats]] = {
    "flat": np.ones,
    "hanning": np.hanning,
    "hamming": np.hamming,
    "bartlett": np.bartlett,
    "blackman": np.blackman,
}


def smooth(
    values: Floats, kind: str = "flat", window: int | None = None, lag: bool = False
) -> Floats:
    """Smooth by a moving average with reflection at both ends.

    The window is min(20 % of the curve, 100) unless given; a window below 3 leaves the curve
    unchanged. Output i averages samples i - (w-1)//2 ... i + w//2.

    Args:
        values: The curve.
        kind: Shape of the window: flat, hanning, hamming, bartlett, blackman or none.
        window: Length of the window; a length above that of the curve counts as None.
        lag: Start one sample earlier for odd windows, as the reference program does.

    >>> smooth(np.arange(1.0, 11.0), window=3).tolist()[:3]
    [1.6666666666666665, 2.0, 3.0]
    """
    n = len(values)
    if window is None or window > n:
        window = min(n // 5, 100)
    if kind == "none" or window < 3:
        return values
    weights = _WINDOWS[kind](window)
    weights = weights / weights.sum()
    padded = np.concatenate([values[window - 1 : 0 : -1], values, values[-2 : -window - 1 : -1]])
    before = (window + 1) // 2 if lag else (window - 1) // 2
    start = window - 1 - before
    return np.convolve(weights, padded, mode="valid")[start : start + n]


def preprocess(
    regimes: Sequence[Regime], expert_regimes: Sequence[Regime], settings: Settings
) -> dict[str, Range] | None:
    """Replace the ``value`` of all regimes by their preprocessed values.

    Args:
        regimes: Regimes of the lifetime.
        expert_regimes: Training regimes of all experts, of tasks that occur in the lifetime.
        settings: The preprocessing settings.

    Returns:
        The range that each task was scaled by, or None if nothing was scaled.
    """
    every = [*regimes, *expert_regimes]
    for regime in every:
        if regime.train or settings.do_smooth_eval_data:
            regime.value = smooth(
                regime.value,
                settings.smoothing_method,
                settings.window_length,
                lag=settings.reference,
            )
    of_task: dict[str, list[Regime]] = {}
    for regime in every:
        of_task.setdefault(regime.task, []).append(regime)
    user_ranges = given_ranges(settings, list(of_task))

    if settings.clamp_outliers:
        for task, mine in of_task.items():
            low, high = user_ranges[task] if user_ranges else _quantiles(_pooled(mine))
            for regime in mine:
                regime.value = np.clip(regime.value, low, high)
    if settings.normalization_method == "none":
        return None
    ranges = user_ranges or {task: _extremes(_pooled(mine)) for task, mine in of_task.items()}
    used = ranges
    if settings.normalization_method == "run":
        bounds = list(ranges.values())
        if settings.data_range is not None:  # entries of other tasks widen the range of the run
            bounds = [(b["min"], b["max"]) for b in settings.data_range.values()]
        whole = (min(low for low, _ in bounds), max(high for _, high in bounds))
        used = dict.fromkeys(of_task, whole)
    for regime in every:
        regime.value = scale(regime.value, used[regime.task], tolerant=not settings.reference)
    return ranges


def scale(values: Floats, bounds: Range, tolerant: bool = True) -> Floats:
    """Scale linearly so that the bounds become 1 and 101; a constant task becomes 1.

    Args:
        values: Values to scale.
        bounds: Lowest and highest value.
        tolerant: Treat a range within rounding error as constant.
    """
    low, high = bounds
    smallest = 1e-12 * max(abs(low), abs(high)) if tolerant else 0.0
    if high - low <= smallest:
        return np.ones_like(values)
    return (values - low) / (high - low) * 100 + 1


def given_ranges(settings: Settings, tasks: Sequence[str]) -> dict[str, Range] | None:
    """Return the user's range of each task, or None if the user gave none."""
    if settings.data_range is None:
        return None
    ranges = {}
    for task in tasks:
        mine = [
            (bounds["min"], bounds["max"])
            for name, bounds in settings.data_range.items()
            if _is(name, task, settings)
        ]
        if not mine:
            raise SettingError(
                f"data_range has no entry for the task {task!r}; it must cover every task."
            )
        ranges[task] = (min(r[0] for r in mine), max(r[1] for r in mine))
    return ranges


def _is(name: str, task: str, settings: Settings) -> bool:
    if not settings.agnostic:
        return name == task
    return task in name if settings.reference else name.split("_", 1)[0] == task


def _pooled(regimes: Sequence[Regime]) -> Floats:
    return np.concatenate([regime.value for regime in regimes])


def _quantiles(values: Floats) -> Range:
    low, high = np.quantile(values, [0.1, 0.9])
    return float(low), float(high)


def _extremes(values: Floats) -> Range:
    return float(values.min()), float(values.max())
