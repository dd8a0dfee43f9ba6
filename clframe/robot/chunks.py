"""The actions that follow each step of a demonstration, as labels of policies that predict them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def sequence_rows(lengths: Sequence[int], window: int) -> Tensor:
    """Which frames the sequences are made of, where demonstrations of these lengths follow.

    >>> sequence_rows([3, 1], 2).tolist()
    [[0, 1], [1, 2], [2, 2], [3, 3]]
    """
    rows, first = [], 0
    for length in lengths:
        steps = np.arange(length)[:, None] + np.arange(window)
        rows.append(first + np.minimum(steps, length - 1))
        first += length
    return torch.from_numpy(np.concatenate(rows))


def chunk_labels(actions: Tensor, lengths: Sequence[int], chunk: int) -> Tensor:
    """Each step's action and those that follow, ``[steps, chunk, numbers + 1]``.

    The last number is 1; behind the end of a demonstration it is 0 and the last action stands.

    >>> chunk_labels(torch.tensor([[0.1], [0.2], [0.3]]), [2, 1], 2).tolist()[0]
    [[0.10000000149011612, 1.0], [0.20000000298023224, 1.0]]
    """
    rows = sequence_rows(lengths, chunk)
    # A row that comes again is padding; the first of a chunk is the step itself.
    there = torch.ones(rows.shape, dtype=actions.dtype)
    there[:, 1:] = (rows[:, 1:] != rows[:, :-1]).to(actions.dtype)
    return torch.cat([actions[rows], there[..., None]], -1)
