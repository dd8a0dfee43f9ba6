"""Student's t, intervals and Welch's test against numerical integration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clframe.errors import SettingError
from clframe.metrics.statistics import summarize, t_cdf, t_quantile


def integrated(t: float, freedom: float) -> float:
    """Integrate the density from 0 to t by Simpson's rule."""
    x = np.linspace(0, t, 20_001)
    log_front = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    front = math.exp(log_front) / math.sqrt(freedom * math.pi)
    y = front * (1 + x * x / freedom) ** (-(freedom + 1) / 2)
    step = x[1] - x[0]
    return 0.5 + float(step / 3 * (y[0] + 4 * y[1:-1:2].sum() + 2 * y[2:-1:2].sum() + y[-1]))


@given(st.floats(0.01, 30), st.floats(1, 200))
def test_t_distribution(t: float, freedom: float) -> None:
    assert t_cdf(t, freedom) == pytest.approx(integrated(t, freedom), abs=1e-9)
    assert t_cdf(-t, freedom) == pytest.approx(1 - t_cdf(t, freedom), abs=1e-12)


def test_known_quantiles() -> None:
    assert t_quantile(0.975, 1) == pytest.approx(12.7062047)
    assert t_quantile(0.975, 9) == pytest.approx(2.2621572)
    assert t_quantile(0.025, 9) == pytest.approx(-2.2621572)


@given(st.floats(0.001, 0.999), st.floats(1, 100))
def test_quantile_inverts(p: float, freedom: float) -> None:
    assert t_cdf(t_quantile(p, freedom), freedom) == pytest.approx(p, abs=1e-9)


def test_one_value_has_no_interval() -> None:
    summary = summarize([3.0])
    assert (summary.mean, summary.stderr, summary.low) == (3.0, None, None)


def test_a_summary_of_nothing_is_refused() -> None:
    with pytest.raises(SettingError):
        summarize([])
    with pytest.raises(SettingError):
        summarize([1.0, 2.0], confidence=1.0)
