"""Label each step of a demonstration with its next actions, for policies that predict chunks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def sequence_rows(lengths: Sequence[int], window: int) -> Tensor:
    """Return the frames of each sequence, for concatenated demonstrations of these lengths.

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
    """Return each step's action and the following ones, ``[steps, chunk, numbers + 1]``.

    The last number is 1; after the end of a demonstration it is 0 and the last action repeats.

    >>> chunk_labels(torch.tensor([[0.1], [0.2], [0.3]]), [2, 1], 2).tolist()[0]
    [[0.10000000149011612, 1.0], [0.20000000298023224, 1.0]]
    """
    rows = sequence_rows(lengths, chunk)
    # A repeated row is padding; the first of a chunk is the step itself.
    present = torch.ones(rows.shape, dtype=actions.dtype)
    present[:, 1:] = (rows[:, 1:] != rows[:, :-1]).to(actions.dtype)
    return torch.cat([actions[rows], present[..., None]], -1)
