"""MIR: replay of the samples that the next step would harm most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from clframe import Capabilities, Plugin, SettingError, hookimpl
from clframe.data.buffer import Buffer
from clframe.utils.setting_checks import check_at_least

from ._functional import full_precision, outputs_with

if TYPE_CHECKING:
    from clframe import Batch, Learner, Step


class MIR(Plugin):
    """MIR: replay of those stored samples whose loss the next step would raise most.

    ER-MIR, Algorithm 1 of the paper. At every step, with the current batch B:

    1. a virtual step, theta_v = theta - lr grad L(B), which is not taken;
    2. candidates are drawn from the buffer, without replacement;
    3. of these the ``batch_size`` with the largest interference (the score s_MI-1)

           s(x) = l(f_theta_v(x), y) - l(f_theta(x), y)

       are learned together with B, the loss being the mean over all these samples;
    4. B is offered to the buffer, a reservoir.

    The virtual step is plain gradient descent, as in the paper, with any optimizer of the run.
    While it is small, the order of the scores does not depend on its length. It is computed in 32
    bits, because scores are small differences. The authors' program leaves out candidates of the
    current task and replays from the second task on. The paper's algorithm has no tasks and does
    not; neither does this plugin.

    Args:
        size: Number of samples in the buffer.
        candidates: Samples drawn per step to choose from (the paper's C).
        batch_size: Number of these that are replayed.
        lr: Length of the virtual step; None for the optimizer's learning rate.
    """

    name = "mir"
    paper = "Aljundi et al., Online Continual Learning with Maximally Interfered Retrieval, 2019"
    roles = ("replayed samples",)
    excludes: ClassVar[Mapping[str, str]] = {
        "untrained head": "it looks ahead with the loss of the outputs"
    }
    capabilities = Capabilities(needs_class_labels=True)
    state = ("buffer",)

    def __init__(
        self, size: int = 500, candidates: int = 50, batch_size: int = 10, lr: float | None = None
    ) -> None:
        self.size = size
        self.candidates = candidates
        self.batch_size = batch_size
        self.lr = lr
        check_at_least(self, self.name, size=1, candidates=1, batch_size=1, lr=0)
        if candidates <= batch_size:
            raise SettingError(
                f"mir.candidates must be above mir.batch_size={batch_size}, so that there is a "
                f"choice, got {candidates!r}"
            )
        self.buffer: Buffer

    @hookimpl
    def configure(self) -> None:
        """Create the buffer."""
        self.buffer = Buffer(self.size, "reservoir", transformed=True)

    @hookimpl(trylast=True)
    def extra_batches(self, learner: Learner, batch: Batch) -> Batch | None:
        """Return the candidates with the largest interference; runs when the loss is set."""
        if not len(self.buffer):
            return None
        generator = learner.generator
        order = torch.randperm(len(self.buffer), device=generator.device, generator=generator)
        chosen = order[: self.candidates]
        if len(chosen) > self.batch_size:
            scores = self.interference(learner, batch, self.buffer.batch(learner, chosen))
            chosen = chosen[scores.topk(self.batch_size).indices]
        return self.buffer.batch(learner, chosen, weight=len(chosen) / len(batch))

    def interference(self, learner: Learner, batch: Batch, candidates: Batch) -> Tensor:
        """Return how much a step on the batch would raise the loss of each candidate."""
        theta = learner.named_trainable()
        with full_precision(learner):
            loss = learner.part_loss(outputs_with(learner, theta, batch), batch)
            gradients = torch.autograd.grad(loss, list(theta.values()), materialize_grads=True)
            lr = self.lr
            if lr is None:
                assert learner.optimizer is not None  # made before the first step
                lr = learner.optimizer.param_groups[0]["lr"]
            with torch.no_grad():
                virtual = {
                    name: parameter - lr * gradient
                    for (name, parameter), gradient in zip(theta.items(), gradients, strict=True)
                }
                before = each_loss(outputs_with(learner, theta, candidates), candidates)
                after = each_loss(outputs_with(learner, virtual, candidates), candidates)
        return after - before

    @hookimpl
    def after_step(self, learner: Learner, step: Step) -> None:
        """Offer the step's own samples to the reservoir."""
        batch = step.batch
        self.buffer.add_batch(batch.x, batch.y, batch.task, learner.generator)


def each_loss(outputs: Tensor, batch: Batch) -> Tensor:
    """Return the cross-entropy of each sample."""
    return functional.cross_entropy(outputs, batch.y, reduction="none")
