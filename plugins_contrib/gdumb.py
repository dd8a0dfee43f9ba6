"""GDumb: store a balanced sample greedily, then train from scratch on it alone."""

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
    """GDumb: training from scratch, at every experience, on a balanced sample of all classes.

    A baseline that shows what other methods add. The greedy balancing sampler fills the buffer as
    samples come and replaces samples of the largest class. The network restarts from its initial
    weights and trains on the buffer alone. The optimizer is the run's own, created again. Its
    learning rate goes from its value down to ``min_lr`` of it and restarts after 1, 2, 4, ...
    epochs (cosine with warm restarts; the paper goes from 0.05 to 0.0005 with SGD).

    Args:
        size: Number of samples in the buffer.
        epochs: Passes over the buffer; None for the run's own budget.
        batch_size: Samples per step.
        min_lr: Lowest learning rate as a fraction of the highest; 1 for a constant one.
    """

    name = "gdumb"
    paper = (
        "Prabhu et al., GDumb: A Simple Approach that Questions Our Progress in Continual Learning,"
        " 2020"
    )
    roles = ("training data", "first weights")
    excludes: ClassVar[Mapping[str, str]] = {
        "replayed samples": "it learns from its buffer alone",
        "task weights": "it restarts from the initial weights in each experience",
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
        """Create the buffer and copy the initial weights."""
        self.buffer = make_buffer(stream, self.size, None, "class_balanced")
        self.first_weights = {k: v.clone() for k, v in learner.model.state_dict().items()}

    @hookimpl(tryfirst=True)
    def fit_experience(self, learner: Learner, experience: Experience, budget: Budget) -> bool:
        """Fill the buffer, restore the initial weights, and train on the buffer."""
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
    """Return half a cosine from 1 to 0 over cycles of 1, 2, 4, ... epochs (Loshchilov & Hutter).

    >>> [round(restarting_cosine(epoch), 2) for epoch in range(7)]
    [1.0, 1.0, 0.5, 1.0, 0.85, 0.5, 0.15]
    """
    length = 1 << ((epoch + 1).bit_length() - 1)
    return 0.5 * (1 + math.cos(math.pi * (epoch + 1 - length) / length))
