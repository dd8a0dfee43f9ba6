"""Paired tests of two policies on the same episodes, whose number was fixed beforehand.

Pairs with the same outcome say nothing about which policy is better; the tests use the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

EXACT = 16
"""Maximum number of differences for which all flips of signs are tried."""
DRAWS = 20_000


def mcnemar(first_only: int, second_only: int) -> float:
    """Return McNemar's exact two-tailed p-value of "each wins as often" (1947).

    The number of pairs that the first wins is binomial(n, 1/2) among the n in which they differ.

    Args:
        first_only: Episodes in which only the first succeeds.
        second_only: Episodes in which only the second does.

    >>> mcnemar(6, 0)
    0.03125
    >>> mcnemar(0, 0)
    1.0
    """
    n, fewer = first_only + second_only, min(first_only, second_only)
    tail = sum(math.comb(n, k) for k in range(fewer + 1))
    return min(1.0, float(2 * tail / (1 << n)))


def sign_flips(differences: Sequence[float], seed: int = 0) -> float:
    """Return the two-tailed p-value of differences symmetric about 0 (Fisher 1935, Pitman 1937).

    The share of all ways to flip the differences' signs whose sum is as far from 0 as the observed
    sum. With more than :data:`EXACT` nonzero differences the flips are sampled, and the p-value is
    (hits + 1) / (draws + 1), which is never too small (Phipson and Smyth, 2010).

    Args:
        differences: First minus second, a number for each episode; values that are not finite are
            left out.
        seed: Seed of the sampled flips.

    >>> sign_flips([0.5, 0.25, 1.0])
    0.25
    >>> sign_flips([0.0, 0.0])
    1.0
    """
    nonzero = np.asarray(differences, dtype=np.float64)
    nonzero = nonzero[np.isfinite(nonzero) & (nonzero != 0)]
    n, seen = len(nonzero), abs(float(nonzero.sum()))
    if n == 0:
        return 1.0
    # Sums that are mathematically equal may differ by rounding.
    limit = seen - 1e-9 * float(np.abs(nonzero).sum())
    if n <= EXACT:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return float((np.abs(signs @ nonzero) >= limit).mean())
    generator = np.random.default_rng(seed)
    signs = generator.integers(0, 2, (DRAWS, n), dtype=np.int8) * 2 - 1
    hits = int((np.abs(signs @ nonzero) >= limit).sum())
    return (hits + 1) / (DRAWS + 1)
