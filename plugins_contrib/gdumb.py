"""GDumb: store a balanced sample greedily, then learn from scratch with nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from clframe import Budget, Plugin, hookimpl
from clframe.data.buffer import Buffer
from clframe.data.class_buffer import make_buffer, remember
from clframe.utils.setting_checks import check_at_least

if TYPE_CHECKING:
    from clframe import Experience, Learner, Stream


class GDumb(Plugin):
    """Learns, from scratch at every experience, a balanced sample of all classes so far.

    A baseline that asks what the method adds: the greedy balancing sampler fills the memory as
    samples come and makes room in the largest class for one that has less; the network starts
    from its first weights and trains on the memory alone. The optimizer is the run's own, made
    anew; its learning rate goes from its value down to ``min_lr`` of it and starts again after
    1, 2, 4, ... epochs (cosine with warm restarts; the paper goes from 0.05 to 0.0005 with SGD).

    Args:
        size: Samples kept.
        epochs: Passes over the memory; None for the run's own budget.
        batch_size: Samples per step.
        min_lr: Lowest learning rate as a part of the highest; 1 for a constant one.
    """

    name = "gdumb"
    paper = (
        "Prabhu et al., GDumb: A Simple Approach that Questions Our Progress in Continual Learning,"
        " 2020"
    )
    roles = ("training data", "first weights")
    excludes: ClassVar[Mapping[str, str]] = {
        "replayed samples": "it learns from its memory alone",
        "task weights": "it starts again from the first weights in each experience",
    }
    state = ("buffer", "first_weights")

    def __init__(
        self,
        size: int = 500,
        epochs: int | None = 256,
        batch_size: int = 16,
        min_lr: float = 0.01,
    ) -> None:
        self.size = size
        self.epochs = epochs
        self.batch_size = batch_size
        self.min_lr = min_lr
        check_at_least(self, self.name, size=1, epochs=1, batch_size=1, min_lr=0)
        self.buffer: Buffer
        self.first_weights: dict[str, Tensor] = {}
        self._highest: list[float] | None = None

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Make the memory and remember the first weights."""
        self.buffer = make_buffer(stream, self.size, None, "class_balanced")
        self.first_weights = {k: v.clone() for k, v in learner.model.state_dict().items()}

    @hookimpl(tryfirst=True)
    def fit_experience(self, learner: Learner, experience: Experience, budget: Budget) -> bool:
        """Fill the memory, go back to the first weights, learn the memory."""
        remember(self.buffer, learner, experience.data.to(learner.engine.device))
        learner.model.load_state_dict(self.first_weights)
        learner.engine.renew_optimizer(learner)
        assert learner.optimizer is not None
        self._highest = [group["lr"] for group in learner.optimizer.param_groups]
        if self.epochs is not None:
            budget = Budget(epochs=self.epochs, batch_size=self.batch_size)
        learner.train_on(self.buffer.data(learner), budget)
        self._highest = None
        return True

    @hookimpl
    def before_epoch(self, learner: Learner, epoch: int) -> None:
        """Set the learning rate of the epoch."""
        if self._highest is None or learner.optimizer is None:
            return
        share = self.min_lr + (1 - self.min_lr) * restarting_cosine(epoch)
        for group, highest in zip(learner.optimizer.param_groups, self._highest, strict=True):
            group["lr"] = highest * share


def restarting_cosine(epoch: int) -> float:
    """Half a cosine from 1 towards 0 over cycles of 1, 2, 4, ... epochs (Loshchilov & Hutter).

    >>> [round(restarting_cosine(epoch), 2) for epoch in range(7)]
    [1.0, 1.0, 0.5, 1.0, 0.85, 0.5, 0.15]
    """
    length = 1 << ((epoch + 1).bit_length() - 1)
    return 0.5 * (1 + math.cos(math.pi * (epoch + 1 - length) / length))
