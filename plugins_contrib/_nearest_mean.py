"""Classification by the nearest mean of each class in a buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from clframe.data.buffer import Buffer
from clframe.data.class_buffer import features_of

if TYPE_CHECKING:
    from clframe import Learner, Task


class NearestMean:
    """Scores of classes by the mean features of their stored samples.

    Features and means are scaled to length 1. Means are computed once for each state of the model.
    """

    def __init__(self) -> None:
        self._means: tuple[tuple[int, int], Tensor, Tensor] | None = None

    def scores(self, learner: Learner, buffer: Buffer, x: Any, task: Task) -> Tensor:
        """Return the similarity to the mean of each class; the lowest without samples."""
        means, present = self.class_means(learner, buffer)
        first = next(iter(x.values())) if isinstance(x, dict) else x
        of_task = torch.full((len(first),), task.index, dtype=torch.long, device=first.device)
        _, features = learner.run_model(x, of_task)
        assert features is not None  # checked when configured
        # For vectors of length 1 the nearest is the one with the largest inner product.
        scores = functional.normalize(features.flatten(1).float(), dim=1) @ means.T
        return learner.mask_outputs(scores.masked_fill(~present, -2.0), of_task)

    def class_means(self, learner: Learner, buffer: Buffer) -> tuple[Tensor, Tensor]:
        """Return the mean feature of each output's samples, and which outputs have any."""
        now = (learner.global_step, len(learner.seen))
        if self._means is None or self._means[0] != now:
            features = features_of(learner, buffer.data(learner))
            labels = buffer.column("labels")
            member = functional.one_hot(labels, learner.stream.n_outputs).to(features.dtype).T
            means = functional.normalize(member @ features, dim=1)
            self._means = (now, means, member.any(1))
        return self._means[1], self._means[2]
