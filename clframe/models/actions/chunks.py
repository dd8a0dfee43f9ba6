"""Which action of the chunks that were predicted is done.

Zhao et al., Learning fine-grained bimanual manipulation with low-cost hardware, 2023, section
III-A: at each step a policy predicts the next actions, so each action was predicted several times;
temporal ensembling does their weighted mean.
"""

from __future__ import annotations

import torch
from torch import Tensor


class ChunkQueue:
    """What was predicted in the episode of each row of a batch.

    Args:
        chunk: Actions of a prediction.
        execute: Do so many of them before the next prediction is taken; None for the mean of all.
        ensemble: The mean's weights are ``exp(-ensemble * i)``, i = 0 for the oldest prediction.
    """

    def __init__(self, chunk: int, execute: int | None, ensemble: float) -> None:
        self.chunk, self.execute, self.ensemble = chunk, execute, ensemble
        self.counts = torch.zeros(0, dtype=torch.long)
        self.kept: Tensor | None = None
        """Predictions by age, ``[n, chunk, chunk, numbers]``; where some are executed, one."""

    def forget(self, begun: Tensor) -> None:
        """Begin anew in these rows."""
        if len(self.counts) != len(begun):
            self.counts, self.kept = torch.zeros_like(begun, dtype=torch.long), None
        self.counts = self.counts.masked_fill(begun, 0)

    def step(self, chunks: Tensor) -> Tensor:
        """The actions ``[n, numbers]`` to do now, where ``[n, chunk, numbers]`` is predicted."""
        if len(self.counts) != len(chunks):
            self.forget(torch.ones(len(chunks), dtype=torch.bool, device=chunks.device))
        return self._mean(chunks) if self.execute is None else self._next(chunks, self.execute)

    def _next(self, chunks: Tensor, execute: int) -> Tensor:
        place = self.counts % execute
        new = (place == 0)[:, None, None]
        self.kept = chunks if self.kept is None else torch.where(new, chunks, self.kept)
        self.counts = self.counts + 1
        return self.kept[torch.arange(len(chunks), device=chunks.device), place]

    def _mean(self, chunks: Tensor) -> Tensor:
        older = chunks[:, None].repeat(1, self.chunk, 1, 1) if self.kept is None else self.kept
        self.kept = torch.cat([chunks[:, None], older[:, :-1]], 1)
        self.counts = (self.counts + 1).clamp(max=self.chunk)
        age = torch.arange(self.chunk, device=chunks.device)
        # What was predicted so many steps ago speaks of this step at that place.
        of_now = self.kept[:, age, age]
        order = self.counts[:, None] - 1 - age
        weights = torch.exp(-self.ensemble * order).masked_fill(order < 0, 0.0).to(chunks.dtype)
        return torch.einsum("nk,nka->na", weights / weights.sum(1, keepdim=True), of_now)
