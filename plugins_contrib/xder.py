"""X-DER: stored logits of all classes, updated for classes that came later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from clframe import Batch, Capabilities, Plugin, SettingError, hookimpl
from clframe.data.buffer import Buffer
from clframe.utils.setting_checks import check_at_least

from ._contrastive import contrastive_loss, make_views, view_of
from ._functional import outputs_over
from ._heads import linear_head
from ._places import last_of_each
from ._recall import no_loss, recall
from .der import all_logits

if TYPE_CHECKING:
    from clframe import Data, Experience, Learner, Step, Stream


class XDER(Plugin):
    """X-DER: DER++ with stored logits updated for later classes, past and future separated.

    With past, present and future classes (those of earlier, this and later experiences; the number
    of the latter is known, as in the paper), the loss of a step is the sum of

    * the cross-entropy of the current batch among present classes only;
    * alpha times the squared distance of stored samples' logits from those stored, all classes;
    * beta times the cross-entropy of another draw of the buffer among past classes;
    * ``eta`` times two hinges, each a mean over the samples at which it is above zero: of the
      current batch, max p_past + margin - max p_present, with p the softmax over both and the first
      one fixed; and of current and stored samples, max o_future + margin - max o_own, with o
      logits and "own" the classes of the sample's experience;
    * ``consistency`` times the supervised contrastive loss of the logits of each future experience,
      scaled to length 1: mean over experiences, sum over views, of samples of the batch and of the
      buffer. Views are augmented images; other inputs have one view, themselves.

    "Implanting the future past": a stored sample's logits of present and future classes are
    replaced by the network's own, scaled so that the largest is at most gamma times the true
    class's stored one::

        l_k  becomes  o_k gamma l_y / max o   where max o > l_y,   else o_k

    That is done for the whole buffer after each experience, and during one for the replayed
    samples, at the j-th time with probability 1/j. The buffer takes an even share of
    each class after an experience, with logits whose past part is held down in the same way.

    These are all parts of the paper (sections 4.1 to 4.4), in the form of the authors' program,
    with three differences: the stronger augmentation is that of ``scr``, logits are stored in
    evaluation mode, and alpha and beta, which they tune for each dataset, are those of ``derpp``.

    Args:
        size: Number of samples in the buffer.
        alpha: Weight of the stored logits.
        beta: Weight of the labels.
        batch_size: Samples drawn per step and term; None for the size of the current batch.
        gamma: Maximum of an implanted logit, as a fraction of the true class's.
        eta: Weight of the two hinges.
        margin: Margin of the two hinges.
        consistency: Weight of the contrastive loss of future classes; 0 leaves it out.
        temperature: Temperature of that loss.
        contrasted: Samples of the batch, and of the buffer, that take part in it.
        augment: Augmentation of a view, as in ``trainer.augment``; null is crop, flip and jitter
            for images and nothing for other inputs.
    """

    name = "xder"
    paper = (
        "Boschini et al., Class-Incremental Continual Learning into the eXtended DER-verse, 2022"
    )
    scenarios = ("class",)
    roles = ("task loss", "replayed samples")
    excludes: ClassVar[Mapping[str, str]] = {"new head": "it compares the logits of a linear head"}
    capabilities = Capabilities(
        needs_class_labels=True,
        needs_boundaries=True,
        attachable="it replaces the loss of the current batch, which your own code computes",
    )
    state = ("buffer",)

    def __init__(
        self,
        size: int = 500,
        alpha: float = 0.5,
        beta: float = 0.5,
        batch_size: int | None = None,
        gamma: float = 0.85,
        eta: float = 0.1,
        margin: float = 0.3,
        consistency: float = 0.1,
        temperature: float = 5.0,
        contrasted: int = 64,
        augment: list[Any] | None = None,
    ) -> None:
        if not temperature > 0:
            raise SettingError(f"xder.temperature must be above 0, got {temperature!r}")
        self.size, self.alpha, self.beta, self.batch_size = size, alpha, beta, batch_size
        self.gamma, self.eta, self.margin = gamma, eta, margin
        self.consistency, self.temperature, self.contrasted = consistency, temperature, contrasted
        self.augment = augment
        check_at_least(self, self.name, size=1, alpha=0, beta=0, batch_size=1, gamma=0, eta=0)
        check_at_least(self, self.name, margin=0, consistency=0, contrasted=1)
        self.buffer: Buffer
        # Made again in each experience or step.
        self._past = self._present = self._future = torch.empty(0, dtype=torch.long)
        self._replayed: list[Batch] = []
        self._positions: list[Tensor] = []
        self._contrasted: list[Batch] = []
        self._update: tuple[Tensor, Tensor] | None = None

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Create the buffer; raise an error for a model without accessible logits."""
        linear_head(learner, self.name)
        self._views = make_views(self.augment, stream, self.name)
        self.buffer = Buffer(self.size, "class_balanced")

    @hookimpl
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Split the classes into past, present and future ones."""
        stream, device = learner.stream, learner.engine.device
        n = stream.n_outputs

        def units(chosen: set[int]) -> Tensor:
            return torch.tensor(sorted(chosen), dtype=torch.long, device=device)

        present = set(experience.outputs)
        past = {unit for other in learner.seen for unit in other.outputs} - present
        self._past, self._present = units(past), units(present)
        self._future = units(set(range(n)) - past - present)
        self._is_past = torch.zeros(n, dtype=torch.bool, device=device)
        self._is_past[self._past] = True
        self._place = torch.zeros(n, dtype=torch.long, device=device)
        self._place[self._present] = torch.arange(len(present), device=device)
        # For each class, the classes of the same experience.
        self._together = torch.eye(n, dtype=torch.bool, device=device)
        heads, seen_units = [], past | present
        for other in reversed(stream.experiences):
            for unit in other.outputs:
                self._together[unit] = False
                self._together[unit, list(other.outputs)] = True
        for other in stream.experiences:
            if not set(other.outputs) <= seen_units:
                mask = torch.zeros(n, dtype=torch.bool, device=device)
                mask[units(set(other.outputs) - seen_units)] = True
                heads.append(mask)
                seen_units |= set(other.outputs)
        self._heads = torch.stack(heads) if heads else torch.empty(0, n, device=device)

    # ------------------------------------------------------------ a step

    @hookimpl
    def extra_batches(self, learner: Learner, batch: Batch) -> list[Batch]:
        """Return two draws of the buffer, and the samples of the contrastive loss."""
        batch.loss = self.present_loss
        self._replayed, self._positions, self._contrasted = [], [], []
        generator = learner.generator
        if len(self.buffer):
            n = self.batch_size or len(batch)
            self._positions = [self.buffer.draw(n, generator) for _ in range(2)]
            self._replayed = [recall(self.buffer, learner, drawn) for drawn in self._positions]
        if len(self._heads) and self.consistency:
            n = min(self.contrasted, len(batch))
            x = batch.x
            first = {k: v[:n] for k, v in x.items()} if isinstance(x, dict) else x[:n]
            samples = [Batch(first, batch.y[:n], batch.task[:n], 0.0, no_loss)]
            if len(self.buffer):
                drawn = self.buffer.draw(self.contrasted, generator)
                samples.append(recall(self.buffer, learner, drawn))
            self._contrasted = samples
            if self._views:
                self._contrasted = [
                    Batch(view_of(part.x, self._views), part.y, part.task, 0.0, no_loss)
                    for part in samples
                    for _ in range(2)
                ]
        return [*self._replayed, *self._contrasted]

    def present_loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the cross-entropy among the present classes."""
        return functional.cross_entropy(outputs[:, self._present], self._place[batch.y])

    @hookimpl
    def penalty(self, learner: Learner, step: Step) -> Tensor:
        """Return all terms except that of the current batch's labels."""

        def logits_of(parts: list[Batch]) -> list[Tensor]:
            return [all_logits(learner, step, step.parts.index(part)) for part in parts]

        current = all_logits(learner, step, 0)
        total = current.new_zeros(())
        rows, labels, keep = current, step.batch.y, None
        self._update = None
        if self._replayed:
            kept, labeled = logits_of(self._replayed)
            stored = self.buffer.columns["logits"][self._positions[0]]
            total = total + self.alpha * functional.mse_loss(kept, stored)
            total = total + self.beta * self.past_loss(labeled, self._replayed[1].y)
            both = torch.cat([kept, labeled])
            self._update = (torch.cat(self._positions), both.detach())
            # A sample that was drawn twice counts once.
            keep = last_of_each(self._update[0], len(self.buffer))
            keep = torch.cat([torch.ones_like(step.batch.y, dtype=torch.bool), keep])
            rows = torch.cat([current, both])
            labels = torch.cat([labels, *(part.y for part in self._replayed)])
        if len(self._past):
            total = total + self.eta * self.past_hinge(current)
        if len(self._future):
            total = total + self.eta * self.future_hinge(rows, labels, keep)
        if self._contrasted:
            z = torch.cat(logits_of(self._contrasted))
            y = torch.cat([part.y for part in self._contrasted])
            total = total + self.consistency * self.contrast(z, y)
        return total

    def past_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the cross-entropy among past classes, of samples of past classes."""
        lowest = torch.finfo(logits.dtype).min
        of_past = logits.masked_fill(~self._is_past, lowest)
        each = functional.cross_entropy(of_past, labels, reduction="none")
        past = self._is_past[labels]
        return torch.where(past, each, 0.0).sum() / past.sum().clamp(min=1)

    def past_hinge(self, logits: Tensor) -> Tensor:
        """Return the hinge that keeps past classes below present ones for the current batch."""
        p = logits[:, torch.cat([self._past, self._present])].softmax(1)
        past, present = p.split([len(self._past), len(self._present)], dim=1)
        return hinge(past.amax(1).detach() + self.margin - present.amax(1))

    def future_hinge(self, logits: Tensor, labels: Tensor, keep: Tensor | None) -> Tensor:
        """Return the hinge that keeps future classes below those of the sample's own experience."""
        lowest = torch.finfo(logits.dtype).min
        own = logits.masked_fill(~self._together[labels], lowest).amax(1)
        return hinge(logits[:, self._future].amax(1) + self.margin - own, keep)

    def contrast(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the contrastive loss of each future experience's logits, mean over experiences."""
        z = functional.normalize(logits * self._heads[:, None], dim=-1)
        views = 2 if self._views else 1
        return views * contrastive_loss(z, labels, self.temperature).mean()

    # ------------------------------------------------------------ the buffer

    @hookimpl
    def after_step(self, learner: Learner) -> None:
        """Implant the future past into the replayed samples."""
        if self._update is None:
            return
        positions, outputs = self._update
        columns, generator = self.buffer.columns, learner.generator
        labels = columns["labels"][positions]
        chosen = last_of_each(positions, len(self.buffer)) & self._is_past[labels]
        columns["updates"].index_add_(0, positions, chosen.float())
        draw = torch.rand(len(positions), device=generator.device, generator=generator)
        chosen &= draw * columns["updates"][positions] < 1
        fresh = self.implanted(columns["logits"][positions], outputs, labels)
        # Samples that are not chosen go to the spare row, so that the device is not read.
        spare = len(columns["logits"]) - 1
        columns["logits"].index_copy_(0, torch.where(chosen, positions, spare), fresh)

    def implanted(self, stored: Tensor, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return stored logits with those of present and future classes replaced."""
        units = torch.cat([self._present, self._future])
        return implant(stored, outputs, labels, units, self.gamma)

    @hookimpl
    def after_experience(self, learner: Learner, data: Data) -> None:
        """Store samples with their logits; implant the future past into the others."""
        logits = outputs_over(learner, data, masked=False)
        if len(self._past):
            logits = implant(logits, logits, data.labels, self._past, self.gamma)
        updates = torch.zeros(len(data), device=logits.device)
        self.buffer.add(data, learner.generator, data.labels, None, logits=logits, updates=updates)
        labels, stored = self.buffer.column("labels"), self.buffer.column("logits")
        outputs = outputs_over(learner, self.buffer.data(learner), masked=False)
        fresh = self.implanted(stored, outputs, labels)
        stored.copy_(torch.where(self._is_past[labels][:, None], fresh, stored))
        self.buffer.column("updates").zero_()


def hinge(values: Tensor, keep: Tensor | None = None) -> Tensor:
    """Return the mean of the kept values above zero; 0 if there are none."""
    above = values > 0
    if keep is not None:
        above = above & keep
    return torch.where(above, values, 0.0).sum() / above.sum().clamp(min=1)


def implant(stored: Tensor, outputs: Tensor, labels: Tensor, units: Tensor, gamma: float) -> Tensor:
    """Replace stored logits of some units by outputs bounded by the true class's logit.

    Args:
        stored: One row per sample.
        outputs: The network's current outputs.
        labels: The true classes.
        units: Which logits are replaced.
        gamma: Upper bound of the largest one, relative to the true class's.
    """
    fresh = outputs.index_select(1, units)
    truth = stored.gather(1, labels[:, None])
    largest = fresh.amax(1, keepdim=True)
    # Avoid division by zero; if the largest is not above, the factor is not used.
    divisor = torch.where(largest.abs() < 1e-6, 1e-6, largest)
    factor = torch.where(largest > truth, gamma * truth / divisor, 1.0)
    return stored.index_copy(1, units, fresh * factor)
