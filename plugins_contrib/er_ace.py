"""ER-ACE: new classes compete only among themselves, so they do not push old ones away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from clframe import Capabilities, Plugin, hookimpl
from clframe.data.buffer import Buffer
from clframe.utils.setting_checks import check_at_least

from ._recall import outputs_of, recall

if TYPE_CHECKING:
    from clframe import Batch, Learner, Step


class ERACE(Plugin):
    """Replay with an asymmetric cross-entropy: current samples compete only in their classes.

    Eq. 4 of the paper: the cross-entropy of the current batch over the classes that occur in it,
    plus the cross-entropy of a batch of the buffer over all classes so far. Samples enter a
    reservoir at every step; the inputs are stored as the model took them.

    Args:
        size: Number of samples in the buffer.
        batch_size: Samples replayed per step; None for the size of the current batch.
    """

    name = "er_ace"
    paper = "Caccia et al., New Insights on Reducing Abrupt Representation Change, 2022"
    scenarios = ("class", "task")
    roles = ("task loss", "replayed samples")
    capabilities = Capabilities(
        needs_class_labels=True,
        attachable="it replaces the loss of the current batch, which your own code computes",
    )
    state = ("buffer",)

    def __init__(self, size: int = 1000, batch_size: int | None = None) -> None:
        self.size = size
        self.batch_size = batch_size
        check_at_least(self, self.name, size=1, batch_size=1)
        self.buffer: Buffer
        self._replayed: Batch | None = None

    @hookimpl
    def configure(self) -> None:
        """Create the buffer."""
        self.buffer = Buffer(self.size, "reservoir", transformed=True)

    @hookimpl
    def extra_batches(self, learner: Learner, batch: Batch) -> Batch | None:
        """Return stored samples, and set the loss of the current batch."""
        batch.loss = loss_among_present
        self._replayed = None
        if len(self.buffer):
            positions = self.buffer.draw(self.batch_size or len(batch), learner.generator)
            self._replayed = recall(self.buffer, learner, positions)
        return self._replayed

    @hookimpl
    def penalty(self, learner: Learner, step: Step) -> Tensor | None:
        """Return the cross-entropy of the stored samples."""
        if self._replayed is None:
            return None
        return learner.label_loss(outputs_of(step, self._replayed), self._replayed)

    @hookimpl
    def after_step(self, learner: Learner, step: Step) -> None:
        """Offer the step's own samples to the reservoir."""
        batch = step.batch
        self.buffer.add_batch(batch.x, batch.y, batch.task, learner.generator)


def loss_among_present(outputs: Tensor, batch: Batch) -> Tensor:
    """Return the cross-entropy over the classes that occur in the batch."""
    absent = torch.ones(outputs.shape[1], dtype=torch.bool, device=outputs.device)
    absent = absent.scatter(0, batch.y, False)
    lowest = torch.finfo(outputs.dtype).min
    return functional.cross_entropy(outputs.masked_fill(absent, lowest), batch.y)
