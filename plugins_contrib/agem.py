"""A-GEM: no step may raise the loss on a batch of stored samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from clframe import Capabilities, Plugin, hookimpl
from clframe.data.buffer import Buffer
from clframe.data.class_buffer import make_buffer, remember
from clframe.utils.setting_checks import check_at_least

from ._gradients import gradients, learned_now

if TYPE_CHECKING:
    from clframe import Data, Learner, Step, Stream


class AGEM(Plugin):
    """A-GEM: projection of the gradient so that it does not oppose that of stored samples.

    With g the gradient of the step and r that of a random batch of the buffer, eq. 11 of the
    paper: if g.r < 0, g becomes g - (g.r / r.r) r.

    The table of van de Ven et al., "Three types of incremental learning" (2022; split MNIST, 100
    samples of a class), was made with ``sample_size=128``, its batch size, and in the
    class-incremental scenario with ``active_outputs=all``. The published cell there is 65.10 with a
    standard error of 3.64 over 20 seeds: single seeds spread by 16 points.

    Mammoth, the program of DER's paper, keeps a reservoir of the first batch of each experience,
    which is a uniform sample of everything: ``per_class=null policy=reservoir``.

    Args:
        per_class: Samples kept of each class, drawn uniformly (the paper keeps 25 of each digit).
        size: Number of samples in the buffer; used when ``per_class`` is null.
        sample_size: Stored samples per step; None for the size of the current batch.
        policy: Whether the classes share the buffer evenly (``class_balanced``) or it is a uniform
            sample of everything (``reservoir``; of each class with ``per_class``).
    """

    paper = "Chaudhry et al., Efficient Lifelong Learning with A-GEM, 2019"
    state = ("buffer",)
    roles = ("gradient",)
    capabilities = Capabilities(needs_boundaries=True)

    def __init__(
        self,
        per_class: int | None = 25,
        size: int = 250,
        sample_size: int | None = 256,
        policy: Literal["class_balanced", "reservoir"] = "class_balanced",
    ) -> None:
        self.per_class = per_class
        self.size = size
        self.sample_size = sample_size
        self.policy: Literal["class_balanced", "reservoir"] = policy
        check_at_least(self, self.name, per_class=1, size=1, sample_size=1)
        self.buffer: Buffer

    @hookimpl
    def configure(self, stream: Stream) -> None:
        """Create the buffer."""
        self.buffer = make_buffer(stream, self.size, self.per_class, self.policy)

    @hookimpl
    def after_backward(self, learner: Learner, step: Step) -> None:
        """Project the gradient, once the buffer has samples."""
        if not len(self.buffer):
            return
        n = self.sample_size or len(step.batch)
        parameters = learned_now(learner)
        reference = gradients(learner, self.buffer.sample(learner, n), parameters)
        project([p.grad for p in parameters if p.grad is not None], reference)

    @hookimpl
    def after_experience(self, learner: Learner, data: Data) -> None:
        """Store samples of the experience."""
        remember(self.buffer, learner, data)


def project(gradient: list[Tensor], reference: list[Tensor]) -> None:
    """Remove, in place, the part of the gradient that opposes the reference, without a sync."""
    across = torch.stack([(g * r).sum() for g, r in zip(gradient, reference, strict=True)]).sum()
    square = torch.stack([r.square().sum() for r in reference]).sum()
    tiny = torch.finfo(square.dtype).tiny
    torch._foreach_mul_(reference, (-across).clamp(min=0) / square.clamp(min=tiny))
    torch._foreach_add_(gradient, reference)
