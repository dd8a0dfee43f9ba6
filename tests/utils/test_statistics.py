"""Standard errors, intervals and Welch's test: published tables, closed forms, integration."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clframe.errors import SettingError
from clframe.utils.statistics import WelchTest, summarize, welch

# Critical values of Student's t as printed in tables with nine decimals: (df, two-tailed p, t).
PUBLISHED = [
    (1, 0.05, 12.706204736),
    (2, 0.05, 4.302652730),
    (3, 0.05, 3.182446305),
    (4, 0.05, 2.776445105),
    (5, 0.05, 2.570581836),
    (8, 0.05, 2.306004135),
    (9, 0.05, 2.262157163),
    (10, 0.05, 2.228138852),
    (10, 0.01, 3.169272673),
    (20, 0.05, 2.085963447),
    (30, 0.05, 2.042272456),
    (30, 0.10, 1.697260887),
    (60, 0.01, 2.660283029),
    (120, 0.05, 1.979930405),
]


def quantile(n: int, confidence: float) -> float:
    """Half the width of the interval of n values, in standard errors."""
    summary = summarize([0.0] * (n - 1) + [1.0], confidence)
    assert summary.standard_error is not None
    assert summary.low is not None
    assert summary.high is not None
    assert summary.high - summary.mean == pytest.approx(summary.mean - summary.low)
    return (summary.high - summary.mean) / summary.standard_error


def equal_spread(t: float, n: int) -> WelchTest:
    """The test of two samples of n values with equal spread whose statistic is t."""
    base = [-1.0, 1.0] + [0.0] * (n - 2)
    error = summarize(base).standard_error
    assert error is not None
    test = welch([value + t * math.sqrt(2) * error for value in base], base)
    assert test is not None
    assert test.t == pytest.approx(t)
    assert test.degrees_of_freedom == pytest.approx(2 * n - 2)
    return test


def two_tailed(t: float, freedom: float) -> float:
    """Integrate the density from 0 to t by Simpson's rule."""
    x = np.linspace(0, abs(t), 20_001)
    log_front = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    front = math.exp(log_front) / math.sqrt(freedom * math.pi)
    y = front * (1 + x * x / freedom) ** (-(freedom + 1) / 2)
    inside = (x[1] - x[0]) / 3 * (y[0] + 4 * y[1:-1:2].sum() + 2 * y[2:-1:2].sum() + y[-1])
    return 1 - 2 * float(inside)


@pytest.mark.parametrize(("freedom", "p", "t"), PUBLISHED)
def test_intervals_meet_published_tables(freedom: int, p: float, t: float) -> None:
    assert quantile(freedom + 1, 1 - p) == pytest.approx(t, abs=1e-8)


@pytest.mark.parametrize(("freedom", "p", "t"), [row for row in PUBLISHED if row[0] % 2 == 0])
def test_p_values_meet_published_tables(freedom: int, p: float, t: float) -> None:
    assert equal_spread(t, freedom // 2 + 1).p_value == pytest.approx(p, abs=1e-6)
    assert equal_spread(-t, freedom // 2 + 1).p_value == pytest.approx(p, abs=1e-6)


@pytest.mark.parametrize("t", [0.0, 1e-6, 0.01, 0.5, 1.0, 3.0, 40.0, 1e4])
def test_p_values_meet_the_closed_form(t: float) -> None:
    test = equal_spread(t, 2)
    assert test.p_value == pytest.approx(1 - test.t / math.sqrt(2 + test.t**2), abs=1e-12)


def test_p_values_tend_to_the_normal() -> None:
    for t in (0.5, 1.96, 4.0):
        assert equal_spread(t, 1000).p_value == pytest.approx(math.erfc(t / math.sqrt(2)), abs=1e-3)


@given(
    st.lists(st.floats(-5, 5), min_size=2, max_size=6),
    st.lists(st.floats(-5, 5), min_size=2, max_size=6),
)
def test_p_values_are_the_integral(first: list[float], second: list[float]) -> None:
    test = welch(first, second)
    assert test is not None
    if abs(test.t) < 30:
        expected = two_tailed(test.t, test.degrees_of_freedom)
        assert test.p_value == pytest.approx(expected, abs=1e-9)


@given(st.floats(0.001, 0.999), st.integers(2, 100))
def test_intervals_invert_the_integral(confidence: float, n: int) -> None:
    t = quantile(n, confidence)
    if t < 30:
        assert two_tailed(t, n - 1) == pytest.approx(1 - confidence, abs=1e-9)


def test_welch_by_hand() -> None:
    # Means 2 and 4, squared errors 1/3 and 4/3: t = -2 / sqrt(5/3), df = (5/3)^2 / (1/18 + 16/18).
    test = welch([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    assert test is not None
    assert test.t == pytest.approx(-2 / math.sqrt(5 / 3))
    assert test.degrees_of_freedom == pytest.approx((25 / 9) / (17 / 18))
    mpmath = pytest.importorskip("mpmath")
    v = test.degrees_of_freedom
    p = mpmath.betainc(v / 2, 0.5, 0, v / (v + test.t**2), regularized=True)
    assert test.p_value == pytest.approx(float(p), abs=1e-12)


def test_welch_is_that_of_scipy() -> None:
    from scipy import stats

    generator = np.random.default_rng(0)
    for n in (2, 3, 5, 20):
        first, second = generator.normal(0.0, 1.0, n), generator.normal(0.7, 3.0, n + 2)
        test = welch(first.tolist(), second.tolist())
        expected = stats.ttest_ind(first, second, equal_var=False)
        assert test is not None
        assert test.t == pytest.approx(expected.statistic, rel=1e-12)
        assert test.degrees_of_freedom == pytest.approx(expected.df, rel=1e-12)
        assert test.p_value == pytest.approx(expected.pvalue, rel=1e-10)


def test_welch_without_spread_or_seeds() -> None:
    assert welch([0.5], [0.4, 0.6]) is None
    equal = welch([0.5, 0.5], [0.5, 0.5])
    assert equal is not None
    assert equal.p_value == 1.0
    apart = welch([0.5, 0.5], [0.6, 0.6])
    assert apart is not None
    assert apart.p_value == 0.0


def test_welch_does_not_depend_on_the_unit() -> None:
    first, second = [1.0, 2.0, 3.0], [2.0, 4.0, 7.0]
    test = welch(first, second)
    tiny = welch([x * 1e-100 for x in first], [x * 1e-100 for x in second])
    assert test is not None
    assert tiny is not None
    assert tiny.p_value == pytest.approx(test.p_value, abs=1e-12)


def test_one_value_has_no_interval() -> None:
    summary = summarize([3.0], confidence=0.95)
    assert (summary.mean, summary.standard_error, summary.low) == (3.0, None, None)


def test_a_summary_of_nothing_is_refused() -> None:
    with pytest.raises(SettingError, match="at least one"):
        summarize([])
    with pytest.raises(SettingError, match="finite"):
        summarize([1.0, math.nan])
    with pytest.raises(SettingError, match="between 0 and 1"):
        summarize([1.0, 2.0], confidence=1.0)


def test_scipy_is_imported_only_for_what_needs_it() -> None:
    code = (
        "import sys; from clframe.utils.statistics import summarize; summarize([1.0, 2.0]);"
        "sys.exit('scipy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
