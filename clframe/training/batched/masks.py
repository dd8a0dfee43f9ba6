"""Masked outputs of several seeds at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from clframe.core.learner import Learner


class Masks:
    """Masks of the outputs that do not compete, for all seeds; active outputs must not change.

    Args:
        learners: The learners whose outputs are masked.
    """

    def __init__(self, learners: Sequence[Learner]) -> None:
        self._of_task: Tensor | None = None
        self._masked: Tensor | None = None
        if learners[0].stream.scenario == "task":
            self._of_task = torch.stack([learner.inactive_of_task for learner in learners])
            self._index = torch.arange(len(learners), device=self._of_task.device)[:, None]
        elif any(learner._any_inactive for learner in learners):
            self._masked = torch.stack([learner.inactive for learner in learners])[:, None]

    def __call__(self, outputs: Tensor, task: Tensor) -> Tensor:
        """Return outputs (seeds, samples, units) with those masked that do not compete."""
        masked = self._masked if self._of_task is None else self._of_task[self._index, task]
        if masked is None:
            return outputs
        return outputs.masked_fill(masked, torch.finfo(outputs.dtype).min)
