"""Mean, standard error, confidence interval and Welch's test, without SciPy.

Student's t distribution is computed from the regularised incomplete beta function by its continued
fraction (Numerical Recipes, Section 6.4; accurate to about 1e-12 here).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clframe.errors import SettingError


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
    n, mean = sample.size, float(sample.mean())
    if n < 2:
        return Summary(n, mean, None, None, None)
    error = float(sample.std(ddof=1)) / math.sqrt(n)
    reach = t_quantile((1 + confidence) / 2, n - 1) * error
    return Summary(n, mean, error, mean - reach, mean + reach)


def welch(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Two-tailed p-value of Welch's t-test for unequal variances; None for samples below two.

    >>> round(welch([1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 6.0, 8.0]), 4)
    0.1516
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.size < 2 or b.size < 2:
        return None
    va, vb = float(a.var(ddof=1)) / a.size, float(b.var(ddof=1)) / b.size
    gap = float(a.mean() - b.mean())
    if va + vb == 0:
        return 1.0 if gap == 0 else 0.0
    freedom = (va + vb) ** 2 / (va**2 / (a.size - 1) + vb**2 / (b.size - 1))
    return 2 * (1 - t_cdf(abs(gap) / math.sqrt(va + vb), freedom))


def t_cdf(t: float, freedom: float) -> float:
    """Probability that Student's t with the given degrees of freedom is at most t.

    >>> round(t_cdf(2.0, 5), 6)
    0.94903
    """
    tail = 0.5 * _beta(freedom / (freedom + t * t), freedom / 2, 0.5)
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


def _beta(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast only on this side
        return 1 - _beta(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log_front + a * math.log(x) + b * math.log1p(-x)) / a
    # Modified Lentz evaluation of the continued fraction.
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    fraction = d
    for m in range(1, 1000):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + step * d
            c = 1 + step / c
            d = 1 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * fraction
