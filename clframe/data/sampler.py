"""The order in which samples are learned."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def epoch_order(n: int, *key: int) -> Tensor:
    """Return a shuffled order of n samples that depends only on the key.

    >>> bool((epoch_order(100, 1, 2) == epoch_order(100, 1, 2)).all())
    True
    >>> bool((epoch_order(100, 1, 2) == epoch_order(100, 1, 3)).all())
    False
    """
    state = np.random.SeedSequence(key).generate_state(1, np.uint64)[0]
    generator = torch.Generator().manual_seed(int(state >> np.uint64(1)))
    return torch.randperm(n, generator=generator)


def in_passes(n: int, start: int, count: int, *key: int) -> Tensor:
    """Return ``count`` positions from an endless series of shuffled passes over n samples.

    Consecutive calls, each starting where the last one ended, return new samples until a pass
    is used up.

    >>> sorted(torch.cat([in_passes(5, 0, 3, 1), in_passes(5, 3, 2, 1)]).tolist())
    [0, 1, 2, 3, 4]
    """
    first, last = start // n, (start + count - 1) // n
    series = torch.cat([epoch_order(n, *key, number) for number in range(first, last + 1)])
    return series[start - first * n :][:count]
