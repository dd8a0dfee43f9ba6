"""Dark Experience Replay: distillation of the network's own earlier outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn import functional

from clframe import Plugin, PluginError, hookimpl
from clframe.core.protocols import split_model
from clframe.data.buffer import Buffer
from clframe.utils.setting_checks import at_least, check_at_least

from ._recall import outputs_of, recall

if TYPE_CHECKING:
    from clframe import Batch, Learner, Step


class DER(Plugin):
    """Dark Experience Replay: stored samples with the logits they had when they were seen.

    Eq. 6 of the paper: the loss of the current batch plus alpha times the squared distance of the
    logits from those stored, mean over samples and outputs. Samples enter a reservoir at every
    step, with the logits of that step, so the buffer follows the whole trajectory and does not
    need task boundaries. All outputs count, as in the paper, including those that do not compete
    for the sample (yet), which keeps future classes from claiming old samples.

    The inputs are stored as the model took them, because a step's samples may come from anywhere.
    Without random transforms this equals the paper.

    Args:
        size: Number of samples in the buffer.
        alpha: Weight of the stored logits.
        batch_size: Samples drawn per step and term; None for the size of the current batch.
    """

    name = "der"
    paper = "Buzzega et al., Dark Experience for General Continual Learning, 2020"
    roles = ("stored logits", "replayed samples")
    state = ("buffer",)

    def __init__(self, size: int = 500, alpha: float = 0.5, batch_size: int | None = None) -> None:
        self.size = size
        self.alpha = alpha
        self.batch_size = batch_size
        check_at_least(self, self.name, size=1, alpha=0, batch_size=1)
        self.buffer: Buffer
        self._replayed: Batch | None = None
        self._positions: Tensor
        self._logits: Tensor

    @hookimpl
    def configure(self, learner: Learner) -> None:
        """Create the buffer; raise an error for a model without accessible logits."""
        if split_model(learner.model) is None:
            raise PluginError(
                f"plugin '{self.name}' needs a model with 'features' and 'head', which "
                f"{type(learner.model).__name__} lacks: it stores all logits, not only those that "
                "compete"
            )
        if learner.policy.steers:
            raise PluginError(
                f"plugin '{self.name}' stores a model's outputs, but those of model.head=flow only "
                "steer later layers, which may change: choose replay"
            )
        self.buffer = Buffer(self.size, "reservoir", transformed=True)

    @hookimpl
    def extra_batches(self, learner: Learner, batch: Batch) -> list[Batch]:
        """Return samples whose logits are to stay."""
        self._replayed = None
        if not len(self.buffer):
            return []
        self._positions = self.buffer.draw(self.batch_size or len(batch), learner.generator)
        self._replayed = recall(self.buffer, learner, self._positions)
        return [self._replayed]

    @hookimpl
    def penalty(self, learner: Learner, step: Step) -> Tensor | None:
        """Return the distance from the stored logits."""
        self._logits = all_logits(learner, step, 0).detach()
        if self._replayed is None:
            return None
        stored = self.buffer.columns["logits"][self._positions]
        now = all_logits(learner, step, step.parts.index(self._replayed))
        return self.alpha * functional.mse_loss(now, stored)

    @hookimpl
    def after_step(self, learner: Learner, step: Step) -> None:
        """Offer the step's own samples with their logits to the reservoir."""
        batch = step.batch
        self.buffer.add_batch(batch.x, batch.y, batch.task, learner.generator, logits=self._logits)


def all_logits(learner: Learner, step: Step, part: int) -> Tensor:
    """Return the logits of a batch of the step, with no output masked."""
    logits: Tensor = learner.model.head(step.features[part])  # type: ignore[operator]
    return logits.float()


class DERpp(DER):
    """DER++: stored samples with their logits and, from a second draw, their labels.

    Eq. 7 of the paper: DER's loss plus beta times the cross-entropy of another random batch.

    Args:
        size: Number of samples in the buffer.
        alpha: Weight of the stored logits.
        beta: Weight of the labels.
        batch_size: Samples drawn per step and term; None for the size of the current batch.
    """

    name = "derpp"

    def __init__(
        self,
        size: int = 500,
        alpha: float = 0.5,
        beta: float = 0.5,
        batch_size: int | None = None,
    ) -> None:
        super().__init__(size, alpha, batch_size)
        at_least(beta, 0, "derpp.beta")
        self.beta = beta
        self._labeled: Batch | None = None

    @hookimpl
    def extra_batches(self, learner: Learner, batch: Batch) -> list[Batch]:
        """Return samples whose logits are to stay, and others whose labels are learned again."""
        parts = super().extra_batches(learner, batch)
        if parts:
            positions = self.buffer.draw(self.batch_size or len(batch), learner.generator)
            self._labeled = recall(self.buffer, learner, positions)
            parts.append(self._labeled)
        return parts

    @hookimpl
    def penalty(self, learner: Learner, step: Step) -> Tensor | None:
        """Return both terms."""
        distance = super().penalty(learner, step)
        if distance is None or self._labeled is None:
            return None
        labeled = learner.label_loss(outputs_of(step, self._labeled), self._labeled)
        return distance + self.beta * labeled
