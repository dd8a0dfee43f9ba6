"""Paired and sequential tests against SciPy, integration, enumeration and simulation."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import stats

from clframe.utils import sequential_tests
from clframe.utils.paired_tests import DRAWS, EXACT, mcnemar, sign_flips
from clframe.utils.sequential_tests import (
    chance_to_decide,
    confidence_sequence,
    decide,
    log_e_pairs,
    log_e_rate,
)
from clframe.utils.statistics import wilson


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (3, 10), (19, 20), (20, 20), (500, 2000)])
def test_wilson_is_scipys(hits: int, n: int) -> None:
    for confidence in (0.8, 0.95, 0.999):
        theirs = stats.binomtest(hits, n).proportion_ci(confidence, method="wilson")
        assert wilson(hits / n, n, confidence) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize(("a", "b"), [(0, 0), (1, 0), (3, 3), (0, 9), (12, 5), (70, 130)])
def test_mcnemar_is_the_binomial_test(a: int, b: int) -> None:
    expected = stats.binomtest(a, a + b).pvalue if a + b else 1.0
    assert mcnemar(a, b) == pytest.approx(expected)


def test_sign_flips_are_the_permutations_within_pairs() -> None:
    generator = np.random.default_rng(0)
    one, two = generator.integers(0, 5, (2, 9)) / 4
    theirs = stats.permutation_test(
        (one, two), lambda a, b: np.mean(a - b), permutation_type="samples", n_resamples=2**9
    )
    assert sign_flips(list(one - two)) == pytest.approx(theirs.pvalue)
    # More differences than are enumerated: drawn flips are near the exact p-value.
    ties = [0.0] * 50
    steps = [1.0] * 13 + [-1.0] * 5
    assert len(steps) > EXACT
    exact, found = mcnemar(13, 5), sign_flips(steps + ties + [math.nan])
    assert abs(found - exact) < 4 * math.sqrt(exact / DRAWS)


@pytest.mark.parametrize(("k", "n"), [(0, 0), (0, 7), (5, 12), (40, 100)])
def test_bets_are_beta_binomial_likelihood_ratios(k: int, n: int) -> None:
    mixture = stats.betabinom(n, 1, 1).pmf(k)
    for rate in (0.2, 0.5, 0.9):
        ratio = mixture / stats.binom(n, rate).pmf(k)
        assert float(np.exp(log_e_rate(k, n, rate))) == pytest.approx(ratio)
        # The same by integrating the likelihood ratio over all rates.
        q = (np.arange(20_000) + 0.5) / 20_000
        grid = np.exp(k * np.log(q / rate) + (n - k) * np.log((1 - q) / (1 - rate)))
        assert grid.mean() == pytest.approx(ratio, rel=1e-4)
    assert log_e_pairs(k, n - k) == pytest.approx(log_e_rate(k, n, 0.5))


def test_a_bet_is_fair_at_every_step() -> None:
    """The expectation over the next outcome is what the bet is worth now: a martingale."""
    for k, n in ((0, 0), (2, 5), (30, 40)):
        now = np.exp(log_e_pairs(k, n - k))
        then = np.exp([log_e_pairs(k + 1, n - k), log_e_pairs(k, n - k + 1)])
        assert then.mean() == pytest.approx(now)


@pytest.mark.parametrize(("k", "n"), [(0, 10), (10, 10), (16, 20), (3, 50)])
def test_the_confidence_sequence_is_what_is_not_rejected(k: int, n: int) -> None:
    low, high = confidence_sequence(k, n, 0.1)
    rates = np.linspace(0.001, 0.999, 999)
    kept = rates[log_e_rate(k, n, rates) < math.log(10)]
    assert low == pytest.approx(kept[0] if k else 0.0, abs=1.01e-3)
    assert high == pytest.approx(kept[-1] if k < n else 1.0, abs=1.01e-3)
    wide = wilson(k / n, n, 0.9)
    assert low <= wide[0] + 1e-9, "looking all the time costs width"
    assert high >= wide[1] - 1e-9
    assert confidence_sequence(0, 0) == (0.0, 1.0)


def test_the_chance_to_decide_is_that_of_drawn_futures() -> None:
    generator = np.random.default_rng(0)
    for a, b, same, left in ((6, 2, 12, 40), (0, 0, 10, 90), (9, 8, 3, 30)):
        rates = generator.dirichlet([a + 1, b + 1, same + 1], size=20_000)
        futures = generator.multinomial(left, rates)
        decided = log_e_pairs(a + futures[:, 0], b + futures[:, 1]) >= math.log(20)
        assert chance_to_decide(a, b, same, left) == pytest.approx(decided.mean(), abs=0.012)
    assert chance_to_decide(3, 3, 0, 0) == 0.0


def test_a_comparison_stops_when_it_is_decided_or_hopeless() -> None:
    ones, zeros = [True] * 30, [False] * 30
    end = decide(zeros, ones)
    assert end is not None
    assert (end.winner, end.pairs, end.first_only, end.second_only) == (2, 8, 0, 8)
    assert end.e_value == pytest.approx(2**8 / 9)
    assert decide(ones[:7], zeros[:7], most=30) is None, "one more is needed"
    same = decide(ones, ones, most=100)
    assert same is None, "after 30 of 100 much can come"
    end = decide(ones, ones, most=35)
    assert end is not None
    assert end.hopeless
    assert not end.decided
    # The verdict does not depend on how many outcomes are there when one looks.
    generator = np.random.default_rng(1)
    one, two = (generator.random((2, 80)) < [[0.5], [0.85]]).tolist()
    whole = decide(one, two, most=80)
    parts = (decide(one[:n], two[:n], most=80) for n in range(81))
    assert next(part for part in parts if part is not None) == whole


def test_false_alarms_are_rarer_than_stated(load_benchmark: Any) -> None:
    """The simulation of docs/results/sequential_tests.md, with fewer comparisons."""
    bench: ModuleType = load_benchmark("sequential_tests")
    for case in bench.CASES:
        found = bench.simulate(case, 1000, 60)
        if case.equal:
            assert found.sequential <= 0.05
        assert found.wrong <= 0.05
        assert found.mean < 60
    cell = bench.simulate_cell(0.7, 0.7, 1000, 60)
    assert cell.above + cell.below <= 0.05
    # The vectorized simulation is the same test as the one that is used.
    case = bench.Case("", (0.4,), (0.8,))
    first, second = case.draw(50, 60, 3)
    ends = [decide(a, b) for a, b in zip(first.tolist(), second.tolist(), strict=True)]
    found = bench.simulate(case, 50, 60, seed=3)
    assert found.sequential == np.mean([end is not None and end.decided for end in ends])
    assert found.mean == np.mean([end.pairs for end in ends if end is not None])
    assert sequential_tests.HOPELESS < 0.05
