"""Tests of two policies on the same episodes, for a number of episodes that was fixed beforehand.

Pairs in which both do the same say nothing about who is better; the tests go by the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

EXACT = 16
"""Differences up to which all flips of signs are tried; beyond, so many are drawn:"""
DRAWS = 20_000


def mcnemar(first_only: int, second_only: int) -> float:
    """Exact two-tailed p-value that, where two differ, each wins as often (McNemar, 1947).

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
    """Two-tailed p-value that paired differences are symmetric about 0 (Fisher 1935, Pitman 1937).

    The share of all ways to flip the differences' signs whose sum is as far from 0 as the one
    seen. With more than :data:`EXACT` differences other than 0 flips are drawn, and the p-value is
    (hits + 1) / (draws + 1), which is never too small (Phipson and Smyth, 2010).

    Args:
        differences: First minus second, a number for each episode; what is not finite is left out.
        seed: Of the flips that are drawn.

    >>> sign_flips([0.5, 0.25, 1.0])
    0.25
    >>> sign_flips([0.0, 0.0])
    1.0
    """
    found = np.asarray(differences, dtype=np.float64)
    found = found[np.isfinite(found) & (found != 0)]
    n, seen = len(found), abs(float(found.sum()))
    if n == 0:
        return 1.0
    # Sums that would be equal on paper may differ by rounding.
    limit = seen - 1e-9 * float(np.abs(found).sum())
    if n <= EXACT:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return float((np.abs(signs @ found) >= limit).mean())
    generator = np.random.default_rng(seed)
    signs = generator.integers(0, 2, (DRAWS, n), dtype=np.int8) * 2 - 1
    hits = int((np.abs(signs @ found) >= limit).sum())
    return (hits + 1) / (DRAWS + 1)
