"""GSS: a memory of samples whose gradients point in different directions."""

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
"""The score of samples that have nothing to be compared with, as in the authors' program."""


class GSS(Plugin):
    """Replay from a memory that takes in a sample if its gradient is unlike those it holds.

    GSS-Greedy, Algorithm 2 of the paper. For each sample of a step, after the step, with its
    gradient g and those G_i of ``subset`` random samples of the memory:

    1. its score is c = max_i <g, G_i> / (|g| |G_i|) + 1;
    2. while there is room, it is taken in with that score;
    3. else, if c < 1, a place i is drawn with probability C_i / sum_j C_j, and the sample takes it,
       with its score, if a uniform random number is below C_i / (C_i + c).

    Each step also learns a random batch of the memory, the loss being the mean over all samples
    (the authors' program makes two steps of it, and repeats them: that is the run's budget here).

    The samples of one step are dealt with together, as in that program: they share one subset, and
    the places are drawn from the scores before the step; where several take one place the last
    stays. That program compares with gradients of batches of the memory, the paper and we with
    those of samples. Gradients are taken in evaluation mode and 32 bits; they take room for (batch
    + subset) x parameters numbers.

    Args:
        size: Samples kept.
        subset: Samples of the memory that a new one is compared with (the paper's n).
        batch_size: Samples replayed per step; None for as many as the current batch has.
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
        """Make the memory."""
        self.buffer = Buffer(self.size, "reservoir", transformed=True)

    @hookimpl
    def extra_batches(self, learner: Learner, batch: Batch) -> Batch | None:
        """A random batch of the memory."""
        if not len(self.buffer):
            return None
        n = self.batch_size or len(batch)
        return self.buffer.sample(learner, n, weight=n / len(batch))

    @hookimpl
    def after_step(self, learner: Learner, step: Step) -> None:
        """Offer the step's own samples to the memory."""
        batch, held = step.batch, len(self.buffer)
        scores = self.scores(learner, batch)
        room = min(self.size - held, len(batch))
        if room:
            free = torch.arange(held, held + room, device=scores.device)
            self._place(free, held + room, rows(batch, 0, room), scores[:room])
        if room < len(batch):
            rest = scores[room:]
            places = replaced(self.buffer.column("similarity"), rest, learner.generator)
            self._place(places, self.size, rows(batch, room, len(batch)), rest)

    def _place(self, places: Tensor, count: int, batch: Batch, scores: Tensor) -> None:
        self.buffer.place(places, count, batch.x, batch.y, batch.task, similarity=scores)

    def scores(self, learner: Learner, batch: Batch) -> Tensor:
        """The score c of each sample: its largest cosine with gradients of the memory, plus 1."""
        if not len(self.buffer):
            return torch.full((len(batch),), FIRST, device=batch.y.device)
        generator = learner.generator
        order = torch.randperm(len(self.buffer), device=generator.device, generator=generator)
        memory = self.buffer.batch(learner, order[: self.subset])
        gradients = of_each(learner, joined(batch, memory))
        n = len(batch)
        return cosines([g[:n] for g in gradients], [g[n:] for g in gradients]).amax(1) + 1


def replaced(held: Tensor, scores: Tensor, generator: torch.Generator) -> Tensor:
    """The place that each sample takes in a full memory; ``len(held)`` for one that is not kept.

    Args:
        held: The scores C of what the memory holds.
        scores: Those c of the samples.
        generator: Of the draws.
    """
    n = len(held)
    kind: dict[str, Any] = {
        "device": generator.device,
        "generator": generator,
        "dtype": torch.float64,
    }
    shares = held.double().clamp(min=0).cumsum(0)
    draw = torch.rand(len(scores), **kind) * shares[-1]
    places = torch.searchsorted(shares, draw, right=True).clamp(max=n - 1)
    theirs = held[places].double()
    taken = torch.rand(len(scores), **kind) * (theirs + scores) < theirs
    taken &= scores < 1
    places = torch.where(taken, places, n)
    return torch.where(last_of_each(places, n + 1), places, n)


def of_each(learner: Learner, batch: Batch) -> list[Tensor]:
    """The gradient of each sample's loss by each of the model's parameters."""
    theta = {f"model.{name}": p.detach() for name, p in learner.named_trainable().items()}
    task = learner.current_task

    def loss(theta: dict[str, Tensor], x: Any, y: Tensor, task: Tensor) -> Tensor:
        one = Batch(_alone(x), y[None], task[None])
        return learner.label_loss(functional_call(learner, theta, (one.x, one.task)), one)

    # Fused attention has no rule for gradients of single samples.
    plain = sdpa_kernel(SDPBackend.MATH)
    with full_precision(learner), evaluating(learner.model), plain:
        gradients = vmap(grad(loss), in_dims=(None, 0, 0, 0))(theta, batch.x, batch.y, batch.task)
    learner.set_task(task)
    return [gradient.flatten(1) for gradient in gradients.values()]


def cosines(new: list[Tensor], old: list[Tensor]) -> Tensor:
    """The cosine of each new gradient (rows) with each old one, all parameters together.

    Summed up parameter by parameter, so that gradients are not laid out as vectors.
    """
    inner = torch.stack([a @ b.T for a, b in zip(new, old, strict=True)]).sum(0)
    lengths = [torch.stack([g.square().sum(1) for g in side]).sum(0).sqrt() for side in (new, old)]
    tiny = torch.finfo(inner.dtype).tiny
    return inner / (lengths[0][:, None] * lengths[1]).clamp(min=tiny)


def joined(one: Batch, other: Batch) -> Batch:
    """The samples of both batches, so that they go through the model together."""
    x: Any = one.x
    if isinstance(x, dict):
        x = {name: torch.cat([value, other.x[name]]) for name, value in x.items()}
    else:
        x = torch.cat([x, other.x])
    return Batch(x, torch.cat([one.y, other.y]), torch.cat([one.task, other.task]))


def rows(batch: Batch, start: int, end: int) -> Batch:
    """Some samples of a batch, one after the other."""
    x = batch.x
    part = {k: v[start:end] for k, v in x.items()} if isinstance(x, dict) else x[start:end]
    return Batch(part, batch.y[start:end], batch.task[start:end])


def _alone(x: Any) -> Any:
    return {name: value[None] for name, value in x.items()} if isinstance(x, dict) else x[None]
