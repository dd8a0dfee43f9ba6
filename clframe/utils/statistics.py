"""Means with their standard errors and intervals, and Welch's t-test.

SciPy is imported on use, and only `scipy.special`: importing `scipy.stats` takes longer than most
commands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from clframe.errors import SettingError


@dataclass(frozen=True)
class Summary:
    """Summary of a sample.

    Attributes:
        n: Number of values.
        mean: Their mean.
        standard_error: Standard error of the mean; None for a single value.
        low: Lower end of the interval around the mean; None without a confidence or a spread.
        high: Upper end of the interval.
    """

    n: int
    mean: float
    standard_error: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class WelchTest:
    """Result of Welch's test: the statistic, its degrees of freedom, the two-tailed p-value."""

    t: float
    degrees_of_freedom: float
    p_value: float


def summarize(values: Sequence[float], confidence: float | None = None) -> Summary:
    """Return mean, standard error s / sqrt(n) and, optionally, Student's t interval of the mean.

    s is the sample deviation (divisor n - 1).

    Args:
        values: At least one finite number.
        confidence: Probability that the interval covers the true mean; None gives no interval.

    Raises:
        SettingError: There is no value, one is not finite, or the confidence is invalid.

    >>> summary = summarize([1.0, 2.0, 3.0], confidence=0.95)
    >>> summary.mean, round(summary.standard_error, 4)
    (2.0, 0.5774)
    >>> round(summary.low, 3), round(summary.high, 3)
    (-0.484, 4.484)
    >>> summarize([1.0])
    Summary(n=1, mean=1.0, standard_error=None, low=None, high=None)
    """
    n = len(values)
    if n == 0 or not all(map(math.isfinite, values)):
        raise SettingError("A summary needs a list of at least one finite number.")
    if confidence is not None and not 0 < confidence < 1:
        raise SettingError(f"confidence is {confidence}, but it must be between 0 and 1.")
    mean = math.fsum(values) / n
    if n == 1:
        return Summary(1, mean, None)
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    error = math.sqrt(variance / n)
    if confidence is None:
        return Summary(n, mean, error)
    from scipy.special import stdtrit

    reach = float(stdtrit(n - 1, (1 + confidence) / 2)) * error
    return Summary(n, mean, error, mean - reach, mean + reach)


def wilson(share: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a share counted on n samples (Wilson, JASA 1927).

    With z the normal quantile, its ends are the two p for which the share is z standard errors
    sqrt(p (1 - p) / n) away from p. Unlike share ± z s it stays within 0..1 and keeps its coverage
    near the ends.

    Args:
        share: Share of the samples.
        n: Number of samples.
        confidence: Probability that the interval covers the true share.

    Raises:
        SettingError: The share, the number or the confidence is invalid.

    >>> [round(end, 4) for end in wilson(0.9, 10)]
    [0.5958, 0.9821]
    >>> wilson(1.0, 20)[1]
    1.0
    """
    if not (0 <= share <= 1 and n > 0 and 0 < confidence < 1):
        raise SettingError(f"there is no interval of a share of {share} of {n} samples.")
    z2 = NormalDist().inv_cdf((1 + confidence) / 2) ** 2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    reach = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return max(0.0, min(share, middle - reach)), min(1.0, max(share, middle + reach))


def welch(first: Sequence[float], second: Sequence[float]) -> WelchTest | None:
    """Return Welch's two-tailed t-test that two samples have the same mean, with free variances.

    t = (m1 - m2) / sqrt(e1^2 + e2^2) with e the standard errors; degrees of freedom by Welch and
    Satterthwaite, (e1^2 + e2^2)^2 / (e1^4 / (n1 - 1) + e2^4 / (n2 - 1)). The result equals
    `scipy.stats.ttest_ind(first, second, equal_var=False)`, but is also defined for samples without
    spread and for values so small that the squares of their variances vanish.

    Args:
        first: The first sample.
        second: The second sample.

    Returns:
        The test, or None if a sample has fewer than two values and so no spread. Two samples
        without any spread are handled exactly: p is 1 if they are equal and 0 if not.

    >>> test = welch([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    >>> round(test.t, 4), round(test.degrees_of_freedom, 4), round(test.p_value, 4)
    (-1.5492, 2.9412, 0.2209)
    """
    a, b = summarize(first), summarize(second)
    if a.standard_error is None or b.standard_error is None:
        return None
    difference = a.mean - b.mean
    error = math.hypot(a.standard_error, b.standard_error)
    if error == 0.0:
        freedom = float(a.n + b.n - 2)
        if difference == 0.0:
            return WelchTest(0.0, freedom, 1.0)
        return WelchTest(math.copysign(math.inf, difference), freedom, 0.0)
    from scipy.special import stdtr

    # As shares of the sum, so that tiny variances do not vanish when squared.
    share_one, share_two = (a.standard_error / error) ** 2, (b.standard_error / error) ** 2
    freedom = 1.0 / (share_one**2 / (a.n - 1) + share_two**2 / (b.n - 1))
    t = difference / error
    return WelchTest(t, freedom, 2.0 * float(stdtr(freedom, -abs(t))))
