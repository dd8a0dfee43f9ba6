"""Means with their standard errors and intervals, and Welch's t-test.

SciPy is imported where it is used, and of it only `scipy.special`: `scipy.stats` alone would take
longer to import than most commands to run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from clframe.errors import SettingError


@dataclass(frozen=True)
class Summary:
    """A sample in short.

    Attributes:
        n: Number of values.
        mean: Their mean.
        standard_error: Of the mean; None for a single value.
        low: Lower end of the interval around the mean; None without a confidence or a spread.
        high: Upper end of it.
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
    """Mean, standard error s / sqrt(n) and, if asked for, Student's t interval around the mean.

    s is the sample deviation (divisor n - 1).

    Args:
        values: At least one finite number.
        confidence: Probability that the interval covers the true mean; None gives no interval.

    Raises:
        SettingError: There is no value, one is not finite, or there is no such confidence.

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
    """Wilson's score interval of a share that was counted on n samples (Wilson, JASA 1927).

    With z the normal quantile, its ends are the two p for which the share is z standard errors
    sqrt(p (1 - p) / n) away from p. Unlike share ± z s it stays within 0..1 and keeps its coverage
    near the ends.

    Args:
        share: Of the samples for which something holds.
        n: Their number.
        confidence: Probability that the interval covers the true share.

    Raises:
        SettingError: There is no such share, number or confidence.

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
    """Welch's two-tailed t-test that two samples have the same mean, variances free.

    t = (m1 - m2) / sqrt(e1^2 + e2^2) with e the standard errors; degrees of freedom by
    Welch and Satterthwaite, (e1^2 + e2^2)^2 / (e1^4 / (n1 - 1) + e2^4 / (n2 - 1)). The same as
    `scipy.stats.ttest_ind(first, second, equal_var=False)`, but defined for samples without spread
    and for values so small that the squares of their variances vanish.

    Args:
        first: The first sample.
        second: The second sample.

    Returns:
        The test, or None where a sample has fewer than two values and so no spread. Two samples
        without any spread are handled exactly: p is 1 if they are equal and 0 if not.

    >>> test = welch([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    >>> round(test.t, 4), round(test.degrees_of_freedom, 4), round(test.p_value, 4)
    (-1.5492, 2.9412, 0.2209)
    """
    one, two = summarize(first), summarize(second)
    if one.standard_error is None or two.standard_error is None:
        return None
    difference = one.mean - two.mean
    error = math.hypot(one.standard_error, two.standard_error)
    if error == 0.0:
        freedom = float(one.n + two.n - 2)
        if difference == 0.0:
            return WelchTest(0.0, freedom, 1.0)
        return WelchTest(math.copysign(math.inf, difference), freedom, 0.0)
    from scipy.special import stdtr

    # As shares of the sum, so that tiny variances do not vanish when squared.
    share_one, share_two = (one.standard_error / error) ** 2, (two.standard_error / error) ** 2
    freedom = 1.0 / (share_one**2 / (one.n - 1) + share_two**2 / (two.n - 1))
    t = difference / error
    return WelchTest(t, freedom, 2.0 * float(stdtr(freedom, -abs(t))))
