"""Mean, standard error and Welch's t-test, without a statistics package.

The tail of Student's t distribution is written with the regularised incomplete beta function
I_x(a, b), which is computed from its continued fraction (NIST DLMF 8.17.22).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_TINY = 1e-300  # stands in for a zero denominator in Lentz's method
_CONVERGED = 1e-15
_MOST_TERMS = 100_000  # the fraction needs about sqrt(max(a, b)) terms


@dataclass(frozen=True)
class Summary:
    """Mean of a sample and the standard error of that mean (None for a single value)."""

    n: int
    mean: float
    standard_error: float | None


@dataclass(frozen=True)
class WelchTest:
    """Result of Welch's test: the statistic, its degrees of freedom, the two-tailed p-value."""

    t: float
    degrees_of_freedom: float
    p_value: float


def summarise(values: Sequence[float]) -> Summary:
    """Mean and standard error s / sqrt(n), with s the sample deviation (divisor n - 1).

    >>> summarise([1.0, 3.0])
    Summary(n=2, mean=2.0, standard_error=1.0)
    >>> summarise([1.0])
    Summary(n=1, mean=1.0, standard_error=None)

    Raises:
        ValueError: There is no value.
    """
    n = len(values)
    if n == 0:
        raise ValueError("a summary needs at least one value")
    mean = math.fsum(values) / n
    if n == 1:
        return Summary(1, mean, None)
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return Summary(n, mean, math.sqrt(variance / n))


def regularised_incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b) for a, b > 0 and 0 <= x <= 1 (DLMF 8.17.2).

    >>> regularised_incomplete_beta(1.0, 1.0, 0.25)  # the uniform distribution
    0.25

    Raises:
        ValueError: An argument is out of range.
    """
    if not (a > 0 and b > 0 and 0 <= x <= 1):
        raise ValueError(f"I_x(a, b) needs a, b > 0 and 0 <= x <= 1, not {a=}, {b=}, {x=}")
    if x in (0.0, 1.0):
        return x
    # The fraction converges fast below the mean of the distribution; above it, the reflection
    # I_x(a, b) = 1 - I_{1-x}(b, a) (DLMF 8.17.4) leads back there.
    if x > (a + 1) / (a + b + 2):
        return 1.0 - regularised_incomplete_beta(b, a, 1.0 - x)
    log_front = (
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * math.log(x)
        + b * math.log1p(-x)
        - math.log(a)
    )
    return math.exp(log_front) * _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction 1 / (1 + d_1 / (1 + d_2 / ...)) by Lentz's method."""

    def safe(value: float) -> float:
        return value if abs(value) > _TINY else _TINY

    # One level of the fraction, with numerator d, updates c (ratio of numerators of successive
    # convergents) and r (inverse ratio of denominators); the value changes by the factor c * r.
    c = 1.0
    r = 1.0 / safe(1.0 - (a + b) * x / (a + 1.0))
    value = r
    for m in range(1, _MOST_TERMS):
        change = 1.0
        for d in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            r = 1.0 / safe(1.0 + d * r)
            c = safe(1.0 + d / c)
            change = c * r
            value *= change
        if abs(change - 1.0) < _CONVERGED:
            return value
    raise ArithmeticError(f"the continued fraction of I_x({a}, {b}) at {x} does not converge")


def t_two_tailed(t: float, degrees_of_freedom: float) -> float:
    """Probability that |T| exceeds |t| for Student's T: I_{v / (v + t^2)}(v / 2, 1 / 2).

    >>> round(t_two_tailed(2.228138852, 10), 6)  # the 0.05 point of every table
    0.05
    """
    if math.isinf(t):
        return 0.0
    v = degrees_of_freedom
    square = t * t
    if square < v:  # v / (v + t^2) is near 1 here; use its complement to keep the digits
        return 1.0 - regularised_incomplete_beta(0.5, v / 2, square / (v + square))
    return regularised_incomplete_beta(v / 2, 0.5, v / (v + square))


def welch(first: Sequence[float], second: Sequence[float]) -> WelchTest | None:
    """Welch's two-tailed t-test that two samples have the same mean, variances free.

    t = (m1 - m2) / sqrt(e1^2 + e2^2) with e the standard errors; degrees of freedom by
    Welch and Satterthwaite, (e1^2 + e2^2)^2 / (e1^4 / (n1 - 1) + e2^4 / (n2 - 1)).

    Args:
        first: The first sample.
        second: The second sample.

    Returns:
        The test, or None where a sample has fewer than two values and so no spread. Two samples
        without any spread are told apart exactly: p is 1 if they are equal and 0 if not.
    """
    one, two = summarise(first), summarise(second)
    if one.standard_error is None or two.standard_error is None:
        return None
    difference = one.mean - two.mean
    square_one, square_two = one.standard_error**2, two.standard_error**2
    error = square_one + square_two
    if error == 0.0:
        freedom = float(one.n + two.n - 2)
        if difference == 0.0:
            return WelchTest(0.0, freedom, 1.0)
        return WelchTest(math.copysign(math.inf, difference), freedom, 0.0)
    # As shares of the sum, so that tiny variances do not vanish when squared.
    share_one, share_two = square_one / error, square_two / error
    freedom = 1.0 / (share_one**2 / (one.n - 1) + share_two**2 / (two.n - 1))
    t = difference / math.sqrt(error)
    return WelchTest(t, freedom, t_two_tailed(t, freedom))
