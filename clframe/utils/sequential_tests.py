"""Anytime-valid tests of successes: check after every episode, and stop once it is decided.

A test martingale is a bet against a hypothesis: its expected value stays 1 while the hypothesis
holds, so the chance that it ever reaches 1 / alpha is at most alpha (Ville, 1939). Both bets here
are mixtures of likelihood ratios over all rates, each rate as likely as another (Robbins, 1970;
the beta-binomial mixtures of Howard et al., Annals of Statistics 2021; for zeros and ones the same
as a mixture of the bets of Waudby-Smith and Ramdas, JRSS B 2024):

* *two policies on the same episodes*: of the n episodes in which only one succeeds the first has
  won k. Against "each wins as often", ``E = 2^n k! (n - k)! / (n + 1)!``.
* *the success rate of one*: k of n episodes succeeded. Against the rate p,
  ``E(p) = k! (n - k)! / ((n + 1)! p^k (1 - p)^(n - k))``. The rates that are not rejected are a
  confidence sequence: the true one is in all of them with probability 1 - alpha.

Related work, sharper for unpaired rollouts of a small fixed maximum: STEP (Snyder et al., RSS 2025,
arXiv 2503.10966). For measures other than success: Snyder et al., 2026 (arXiv 2603.13616).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clframe.errors import SettingError

ALPHA = 0.05
HOPELESS = 0.02
"""A comparison is given up if the chance that the remaining episodes decide it is below this."""
LOOK = 10
"""Number of episodes between two checks whether it is hopeless."""

Floats = NDArray[np.float64]


def check_alpha(alpha: float, name: str) -> None:
    """Refuse an error rate outside of 0..1.

    Raises:
        SettingError: Names the setting.
    """
    if not 0 < alpha < 1:
        raise SettingError(f"{name} is {alpha:g}, but an error rate is between 0 and 1.")


@functools.lru_cache(maxsize=4)
def _table(size: int) -> Floats:
    """Return the logarithms of 0! to (size - 1)!."""
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, size)))])


def _log_factorial(n: ArrayLike) -> Floats:
    numbers = np.asarray(n, dtype=np.int64)
    top = int(numbers.max(initial=0)) + 2
    return np.asarray(_table(1 << top.bit_length())[numbers])


def _log_beta(k: ArrayLike, n: ArrayLike) -> Floats:
    """Return log k! (n - k)! / (n + 1)!, the likelihood of k of n under a uniform rate."""
    k, n = np.asarray(k), np.asarray(n)
    return np.asarray(_log_factorial(k) + _log_factorial(n - k) - _log_factorial(n + 1))


def log_e_pairs(first_only: ArrayLike, second_only: ArrayLike) -> Floats:
    """Return the logarithm of E against "where two differ, each wins as often".

    Args:
        first_only: Episodes so far in which only the first succeeds.
        second_only: Episodes so far in which only the second does.

    >>> round(float(np.exp(log_e_pairs(8, 0))), 3)
    28.444
    """
    k = np.asarray(first_only, dtype=np.int64)
    n = k + np.asarray(second_only, dtype=np.int64)
    return np.asarray(n * math.log(2.0) + _log_beta(k, n))


def log_e_rate(successes: ArrayLike, episodes: ArrayLike, rate: ArrayLike) -> Floats:
    """Return the logarithm of E against a success rate.

    Args:
        successes: Successes so far.
        episodes: Episodes so far.
        rate: A rate between 0 and 1, exclusive.

    >>> bool(log_e_rate(8, 8, 0.5) == log_e_pairs(8, 0))
    True
    """
    k, n = np.asarray(successes, dtype=np.int64), np.asarray(episodes, dtype=np.int64)
    p = np.asarray(rate, dtype=np.float64)
    return np.asarray(_log_beta(k, n) - k * np.log(p) - (n - k) * np.log1p(-p))


def confidence_sequence(successes: int, episodes: int, alpha: float = ALPHA) -> tuple[float, float]:
    """Return the interval of rates that are not rejected after this number of episodes.

    Args:
        successes: Successes so far.
        episodes: Episodes so far; 0 rejects nothing.
        alpha: Probability, at most, that the true rate is ever outside.

    >>> [round(end, 3) for end in confidence_sequence(16, 20)]
    [0.474, 0.97]
    """
    share = successes / episodes if episodes else 0.5
    ends = []
    for outside, exists in ((0.0, successes > 0), (1.0, successes < episodes)):
        # E falls from the ends to the observed share: bisect for where it is 1 / alpha.
        far, near = outside, share
        for _ in range(60 if exists else 0):
            middle = (far + near) / 2
            if log_e_rate(successes, episodes, middle) >= -math.log(alpha):
                far = middle
            else:
                near = middle
        ends.append(far)
    return ends[0], ends[1]


@functools.lru_cache(maxsize=4096)
def chance_to_decide(
    first_only: int, second_only: int, same: int, left: int, alpha: float = ALPHA
) -> float:
    """Return the chance that two policies are told apart in the end, given the episodes so far.

    Computed with the predictive distribution of the remaining episodes, with a uniform prior over
    "only the first", "only the second" and "both the same". It is 0 if not even the best case
    suffices. Giving up by this chance can only make decisions, and so false ones, rarer.

    Args:
        first_only: Episodes so far in which only the first succeeds.
        second_only: Episodes so far in which only the second does.
        same: Episodes so far in which they do the same.
        left: Episodes to come.
        alpha: Error rate of the test.

    >>> chance_to_decide(1, 1, 8, left=5)
    0.0
    >>> chance_to_decide(6, 0, 0, left=100) > 0.9
    True
    """
    n = first_only + second_only
    differing, won = np.meshgrid(np.arange(left + 1), np.arange(left + 1), indexing="ij")
    possible = won <= differing
    differing, won = differing[possible], won[possible]
    decided = log_e_pairs(first_only + won, second_only + differing - won) >= -math.log(alpha)
    if not decided.any():
        return 0.0
    differing, won = differing[decided], won[decided]
    # The rate of differing is Beta(n + 2, same + 1), the first's share of wins Beta(a + 1, b + 1).
    log_chance = (
        _log_choose(left, differing)
        + _log_beta(n + 1 + differing, n + same + 1 + left)
        - _log_beta(n + 1, n + same + 1)
        + _log_choose(differing, won)
        + _log_beta(first_only + won, n + differing)
        - _log_beta(first_only, n)
    )
    return min(1.0, float(np.exp(log_chance).sum()))


def _log_choose(n: ArrayLike, k: ArrayLike) -> Floats:
    n, k = np.asarray(n), np.asarray(k)
    return np.asarray(_log_factorial(n) - _log_factorial(k) - _log_factorial(n - k))


@dataclass(frozen=True)
class Decision:
    """The end of a sequential comparison.

    Args:
        winner: 1 for the first, 2 for the second, 0 if they were not told apart.
        pairs: Number of episodes that each of the two ran until then.
        first_only: Episodes in which only the first succeeded.
        second_only: Episodes in which only the second succeeded.
        e_value: Value of E at that time.
        hopeless: Whether it was given up before the last episode.
    """

    winner: int
    pairs: int
    first_only: int
    second_only: int
    e_value: float
    hopeless: bool = False

    @property
    def decided(self) -> bool:
        """Whether the two were told apart."""
        return self.winner != 0


def decide(
    first: Sequence[bool],
    second: Sequence[bool],
    most: int | None = None,
    alpha: float = ALPHA,
    hopeless: float = HOPELESS,
) -> Decision | None:
    """Go through pairs of outcomes one by one, and stop when it is decided or hopeless.

    Args:
        first: Whether the first policy succeeded, by episode.
        second: Whether the second succeeded in the same episodes.
        most: Maximum number of episodes, fixed beforehand; None for the given ones.
        alpha: Probability, at most, that equally good policies are told apart.
        hopeless: Chance of a decision below which to give up; 0 goes on while one is possible.

    Returns:
        The decision, or None if more episodes are needed.

    >>> end = decide([True] * 10, [False] * 10)
    >>> end.winner, end.pairs, round(end.e_value, 1)
    (1, 8, 28.4)
    """
    most = len(first) if most is None else most
    first_won, second_won = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    wins, losses = np.cumsum(first_won & ~second_won), np.cumsum(second_won & ~first_won)
    log_e = log_e_pairs(wins, losses)
    reached = np.flatnonzero(log_e >= -math.log(alpha))
    until = int(reached[0]) if len(reached) else len(first_won)
    for seen in range(LOOK, min(until, most - 1) + 1, LOOK):
        a, b = int(wins[seen - 1]), int(losses[seen - 1])
        chance = chance_to_decide(a, b, seen - a - b, most - seen, alpha)
        if chance == 0 or chance < hopeless:
            return Decision(0, seen, a, b, math.exp(log_e[seen - 1]), hopeless=True)
    if until < len(first_won):
        a, b = int(wins[until]), int(losses[until])
        return Decision(1 if a > b else 2, until + 1, a, b, math.exp(log_e[until]))
    if len(first_won) < most:
        return None
    a, b = (int(wins[-1]), int(losses[-1])) if len(first_won) else (0, 0)
    return Decision(0, len(first_won), a, b, math.exp(log_e[-1]) if len(first_won) else 1.0)
