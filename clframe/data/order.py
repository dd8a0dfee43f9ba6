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
