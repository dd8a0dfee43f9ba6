"""Select actions from the predicted chunks.

Zhao et al., Learning fine-grained bimanual manipulation with low-cost hardware, 2023, section
III-A: at each step, a policy predicts the next actions, so each action is predicted several times;
temporal ensembling uses their weighted mean.
"""

from __future__ import annotations

import torch
from torch import Tensor


class ChunkQueue:
    """The predictions of the current episode, for each row of a batch.

    Args:
        chunk: Actions per prediction.
        execute: Actions to execute before the next prediction is used; None for the mean of all.
        ensemble: The mean's weights are ``exp(-ensemble * i)``, i = 0 for the oldest prediction.
    """

    def __init__(self, chunk: int, execute: int | None, ensemble: float) -> None:
        self.chunk, self.execute, self.ensemble = chunk, execute, ensemble
        self.counts = torch.zeros(0, dtype=torch.long)
        self.kept: Tensor | None = None
        """Predictions by age, ``[n, chunk, chunk, numbers]``; with ``execute``, only one."""

    def forget(self, begun: Tensor) -> None:
        """Reset these rows."""
        if len(self.counts) != len(begun):
            self.counts, self.kept = torch.zeros_like(begun, dtype=torch.long), None
        self.counts = self.counts.masked_fill(begun, 0)

    def step(self, chunks: Tensor) -> Tensor:
        """Return the next actions ``[n, numbers]`` from predictions ``[n, chunk, numbers]``."""
        if len(self.counts) != len(chunks):
            self.forget(torch.ones(len(chunks), dtype=torch.bool, device=chunks.device))
        return self._mean(chunks) if self.execute is None else self._next(chunks, self.execute)

    def _next(self, chunks: Tensor, execute: int) -> Tensor:
        position = self.counts % execute
        new = (position == 0)[:, None, None]
        self.kept = chunks if self.kept is None else torch.where(new, chunks, self.kept)
        self.counts = self.counts + 1
        return self.kept[torch.arange(len(chunks), device=chunks.device), position]

    def _mean(self, chunks: Tensor) -> Tensor:
        older = chunks[:, None].repeat(1, self.chunk, 1, 1) if self.kept is None else self.kept
        self.kept = torch.cat([chunks[:, None], older[:, :-1]], 1)
        self.counts = (self.counts + 1).clamp(max=self.chunk)
        age = torch.arange(self.chunk, device=chunks.device)
        # A prediction of age n predicts this step at position n.
        of_now = self.kept[:, age, age]
        order = self.counts[:, None] - 1 - age
        weights = torch.exp(-self.ensemble * order).masked_fill(order < 0, 0.0).to(chunks.dtype)
        return torch.einsum("nk,nka->na", weights / weights.sum(1, keepdim=True), of_now)
