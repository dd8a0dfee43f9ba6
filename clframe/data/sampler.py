"""The order in which samples are learned."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def epoch_order(n: int, *key: int) -> Tensor:
    """A shuffled order of n samples that depends on nothing but the key.

    >>> bool((epoch_order(100, 1, 2) == epoch_order(100, 1, 2)).all())
    True
    >>> bool((epoch_order(100, 1, 2) == epoch_order(100, 1, 3)).all())
    False
    """
    state = np.random.SeedSequence(key).generate_state(1, np.uint64)[0]
    generator = torch.Generator().manual_seed(int(state >> np.uint64(1)))
    return torch.randperm(n, generator=generator)


def in_passes(n: int, start: int, count: int, *key: int) -> Tensor:
    """So many of n samples from a place on in an endless series of shuffled passes over them.

    Whoever takes from it again and again gets samples that it has not had yet, as long as there
    are any.

    >>> sorted(torch.cat([in_passes(5, 0, 3, 1), in_passes(5, 3, 2, 1)]).tolist())
    [0, 1, 2, 3, 4]
    """
    first, last = start // n, (start + count - 1) // n
    series = torch.cat([epoch_order(n, *key, number) for number in range(first, last + 1)])
    return series[start - first * n :][:count]
