"""Confidence intervals of a mean by Student's t distribution, without SciPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clframe.errors import SettingError
from clframe.utils.statistics import regularised_incomplete_beta, summarise


@dataclass(frozen=True)
class Summary:
    """A sample in short; what needs at least two values is None below that."""

    n: int
    mean: float
    stderr: float | None
    low: float | None
    high: float | None


def summarize(values: Sequence[float], confidence: float = 0.95) -> Summary:
    """Mean, standard error s / sqrt(n) and the t interval around the mean.

    Args:
        values: At least one finite number.
        confidence: Probability that the interval covers the true mean.

    >>> s = summarize([1.0, 2.0, 3.0])
    >>> s.mean, round(s.stderr, 4), round(s.low, 3), round(s.high, 3)
    (2.0, 0.5774, -0.484, 4.484)
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or sample.size == 0 or not np.isfinite(sample).all():
        raise SettingError("A summary needs a list of at least one finite number.")
    if not 0 < confidence < 1:
        raise SettingError(f"confidence is {confidence}, but it must lie between 0 and 1.")
    short = summarise(sample.tolist())
    if short.standard_error is None:
        return Summary(short.n, short.mean, None, None, None)
    reach = t_quantile((1 + confidence) / 2, short.n - 1) * short.standard_error
    return Summary(
        short.n, short.mean, short.standard_error, short.mean - reach, short.mean + reach
    )


def t_cdf(t: float, freedom: float) -> float:
    """Probability that Student's t with the given degrees of freedom is at most t.

    >>> round(t_cdf(2.0, 5), 6)
    0.94903
    """
    tail = 0.5 * regularised_incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))
    return 1 - tail if t > 0 else tail


def t_quantile(probability: float, freedom: float) -> float:
    """Inverse of `t_cdf`, by bisection.

    >>> round(t_quantile(0.975, 2), 4)
    4.3027
    """
    if probability < 0.5:
        return -t_quantile(1 - probability, freedom)
    low, high = 0.0, 1.0
    while t_cdf(high, freedom) < probability:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2
