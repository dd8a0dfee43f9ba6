from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clframe.utils.statistics import (
    regularised_incomplete_beta,
    summarise,
    t_two_tailed,
    welch,
)

# Critical values of Student's t as printed in tables with nine decimals: (df, two-tailed p, t).
PUBLISHED = [
    (1, 0.05, 12.706204736),
    (2, 0.05, 4.302652730),
    (3, 0.05, 3.182446305),
    (4, 0.05, 2.776445105),
    (5, 0.05, 2.570581836),
    (8, 0.05, 2.306004135),
    (10, 0.05, 2.228138852),
    (10, 0.01, 3.169272673),
    (20, 0.05, 2.085963447),
    (30, 0.05, 2.042272456),
    (30, 0.10, 1.697260887),
    (60, 0.01, 2.660283029),
    (120, 0.05, 1.979930405),
]


@pytest.mark.parametrize(("freedom", "p", "t"), PUBLISHED)
def test_t_tail_meets_published_tables(freedom: int, p: float, t: float) -> None:
    assert t_two_tailed(t, freedom) == pytest.approx(p, abs=1e-6)
    assert t_two_tailed(-t, freedom) == pytest.approx(p, abs=1e-6)


@pytest.mark.parametrize("t", [0.0, 1e-6, 0.01, 0.5, 1.0, 3.0, 40.0, 1e4])
def test_t_tail_meets_closed_forms(t: float) -> None:
    assert t_two_tailed(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(t), abs=1e-12)
    assert t_two_tailed(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-12)


def test_t_tail_tends_to_the_normal() -> None:
    for t in (0.5, 1.96, 4.0):
        assert t_two_tailed(t, 1e7) == pytest.approx(math.erfc(t / math.sqrt(2)), abs=1e-6)


def test_incomplete_beta_against_mpmath() -> None:
    mpmath = pytest.importorskip("mpmath")
    for a in (0.5, 1.7, 20.0, 300.0):
        for b in (0.5, 2.0, 33.3):
            for x in (0.0, 1e-9, 0.1, 0.5, 0.9, 1 - 1e-9, 1.0):
                expected = float(mpmath.betainc(a, b, 0, x, regularized=True))
                assert regularised_incomplete_beta(a, b, x) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize(("a", "b", "x"), [(0.0, 1.0, 0.5), (1.0, -1.0, 0.5), (1.0, 1.0, 1.5)])
def test_incomplete_beta_refuses_what_is_undefined(a: float, b: float, x: float) -> None:
    with pytest.raises(ValueError, match="needs a, b > 0"):
        regularised_incomplete_beta(a, b, x)


@given(st.floats(0.5, 200), st.floats(0.5, 200), st.integers(0, 2**20))
def test_incomplete_beta_reflects(a: float, b: float, steps: int) -> None:
    x = steps / 2**20  # so that 1 - x is exact; near 0 the function is steeper than rounding
    total = regularised_incomplete_beta(a, b, x) + regularised_incomplete_beta(b, a, 1 - x)
    assert total == pytest.approx(1, abs=1e-9)


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


def test_summary_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        summarise([])
