"""GSS: a buffer of samples whose gradients point in different directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from clframe import Batch, Capabilities, Plugin, hookimpl
from clframe.data.buffer import Buffer
from clframe.utils.setting_checks import check_at_least

from ._functional import evaluating, full_precision
from ._places import last_of_each

if TYPE_CHECKING:
    from clframe import Learner, Step

FIRST = 1.1
"""Score of samples without others to compare with, as in the authors' program."""


class GSS(Plugin):
    """GSS: replay from a buffer that prefers samples with dissimilar gradients.

    GSS-Greedy, Algorithm 2 of the paper. For each sample of a step, after the step, with its
    gradient g and those G_i of ``subset`` random samples of the buffer:

    1. its score is c = max_i <g, G_i> / (|g| |G_i|) + 1;
    2. while there is space, it is stored with that score;
    3. otherwise, if c < 1, a row i is drawn with probability C_i / sum_j C_j, and the sample takes
       it, with its score, if a uniform random number is below C_i / (C_i + c).

    Each step also trains on a random batch of the buffer, the loss being the mean over all samples
    (the authors' program makes two steps of it, and repeats them; here that is the run's budget).

    The samples of one step are processed together, as in that program: they share one subset, and
    the rows are drawn from the scores before the step. If several take one row, the last one stays.
    That program compares with gradients of batches of the buffer; the paper and this plugin compare
    with those of samples. Gradients are computed in evaluation mode and 32 bits and need memory for
    (batch + subset) x parameters numbers.

    Args:
        size: Number of samples in the buffer.
        subset: Stored samples that a new one is compared with (the paper's n).
        batch_size: Samples replayed per step; None for the size of the current batch.
    """

    name = "gss"
    paper = "Aljundi et al., Gradient Based Sample Selection for Online Continual Learning, 2019"
    roles = ("replayed samples",)
    excludes: ClassVar[Mapping[str, str]] = {
        "new head": "it needs the gradient of single samples, and such a head has none"
    }
    capabilities = Capabilities(needs_class_labels=True)
    state = ("buffer",)

    def __init__(self, size: int = 300, subset: int = 10, batch_size: int | None = None) -> None:
        self.size = size
        self.subset = subset
        self.batch_size = batch_size
        check_at_least(self, self.name, size=1, subset=1, batch_size=1)
        self.buffer: Buffer

    @hookimpl
    def configure(self) -> None:
        """Create the buffer."""
        self.buffer = Buffer(self.size, "reservoir", transformed=True)

    @hookimpl
    def extra_batches(self, learner: Learner, batch: Batch) -> Batch | None:
        """Return a random batch of the buffer."""
        if not len(self.buffer):
            return None
        n = self.batch_size or len(batch)
        return self.buffer.sample(learner, n, weight=n / len(batch))

    @hookimpl
    def after_step(self, learner: Learner, step: Step) -> None:
        """Offer the step's own samples to the buffer."""
        batch, held = step.batch, len(self.buffer)
        scores = self.scores(learner, batch)
        room = min(self.size - held, len(batch))
        if room:
            free = torch.arange(held, held + room, device=scores.device)
            self._place(free, held + room, rows(batch, 0, room), scores[:room])
        if room < len(batch):
            rest = scores[room:]
            slots = replaced(self.buffer.column("similarity"), rest, learner.generator)
            self._place(slots, self.size, rows(batch, room, len(batch)), rest)

    def _place(self, slots: Tensor, count: int, batch: Batch, scores: Tensor) -> None:
        self.buffer.place(slots, count, batch.x, batch.y, batch.task, similarity=scores)

    def scores(self, learner: Learner, batch: Batch) -> Tensor:
        """Return the score c of each sample: its largest cosine with stored gradients, plus 1."""
        if not len(self.buffer):
            return torch.full((len(batch),), FIRST, device=batch.y.device)
        generator = learner.generator
        order = torch.randperm(len(self.buffer), device=generator.device, generator=generator)
        memory = self.buffer.batch(learner, order[: self.subset])
        gradients = of_each(learner, joined(batch, memory))
        n = len(batch)
        return cosines([g[:n] for g in gradients], [g[n:] for g in gradients]).amax(1) + 1


def replaced(held: Tensor, scores: Tensor, generator: torch.Generator) -> Tensor:
    """Return the row that each sample takes in a full buffer; ``len(held)`` for none.

    Args:
        held: The scores C of the stored samples.
        scores: The scores c of the new samples.
        generator: Generator of the draws.
    """
    n = len(held)
    kind: dict[str, Any] = {
        "device": generator.device,
        "generator": generator,
        "dtype": torch.float64,
    }
    shares = held.double().clamp(min=0).cumsum(0)
    draw = torch.rand(len(scores), **kind) * shares[-1]
    slots = torch.searchsorted(shares, draw, right=True).clamp(max=n - 1)
    theirs = held[slots].double()
    taken = torch.rand(len(scores), **kind) * (theirs + scores) < theirs
    taken &= scores < 1
    slots = torch.where(taken, slots, n)
    return torch.where(last_of_each(slots, n + 1), slots, n)


def of_each(learner: Learner, batch: Batch) -> list[Tensor]:
    """Return the gradient of each sample's loss by each of the model's parameters."""
    theta = {f"model.{name}": p.detach() for name, p in learner.named_trainable().items()}
    task = learner.current_task

    def loss(theta: dict[str, Tensor], x: Any, y: Tensor, task: Tensor) -> Tensor:
        sample = Batch(_alone(x), y[None], task[None])
        return learner.label_loss(functional_call(learner, theta, (sample.x, sample.task)), sample)

    # Fused attention does not support gradients of single samples.
    plain = sdpa_kernel(SDPBackend.MATH)
    with full_precision(learner), evaluating(learner.model), plain:
        gradients = vmap(grad(loss), in_dims=(None, 0, 0, 0))(theta, batch.x, batch.y, batch.task)
    learner.set_task(task)
    return [gradient.flatten(1) for gradient in gradients.values()]


def cosines(new: list[Tensor], old: list[Tensor]) -> Tensor:
    """Return the cosine of each new gradient (rows) with each old one, over all parameters.

    Summed parameter by parameter, so that gradients are not copied into vectors.
    """
    inner = torch.stack([a @ b.T for a, b in zip(new, old, strict=True)]).sum(0)
    lengths = [torch.stack([g.square().sum(1) for g in side]).sum(0).sqrt() for side in (new, old)]
    tiny = torch.finfo(inner.dtype).tiny
    return inner / (lengths[0][:, None] * lengths[1]).clamp(min=tiny)


def joined(first: Batch, other: Batch) -> Batch:
    """Join the samples of both batches, so that they go through the model together."""
    x: Any = first.x
    if isinstance(x, dict):
        x = {name: torch.cat([value, other.x[name]]) for name, value in x.items()}
    else:
        x = torch.cat([x, other.x])
    return Batch(x, torch.cat([first.y, other.y]), torch.cat([first.task, other.task]))


def rows(batch: Batch, start: int, end: int) -> Batch:
    """Return consecutive samples of a batch."""
    x = batch.x
    inputs = {k: v[start:end] for k, v in x.items()} if isinstance(x, dict) else x[start:end]
    return Batch(inputs, batch.y[start:end], batch.task[start:end])


def _alone(x: Any) -> Any:
    return {name: value[None] for name, value in x.items()} if isinstance(x, dict) else x[None]
