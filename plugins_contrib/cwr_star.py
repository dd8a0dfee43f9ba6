"""CWR*: consolidated weights of the head, class by class, over fixed features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

from clframe import Capabilities, Plugin, hookimpl

from ._heads import linear_head

if TYPE_CHECKING:
    from clframe import Data, Experience, Learner, Stream


class CWRStar(Plugin):
    """CWR*: features learned once, then only the head, whose rows are averaged per class.

    Algorithm 1 of the paper. Each experience starts with a temporary head tw: zero, except the
    consolidated row cw_j for each of its classes that is known. The first experience trains
    everything, the others only tw. Then, for each class j of the experience with cur_j samples
    now and past_j before,

        w = sqrt(past_j / cur_j);  cw_j = (cw_j w + (tw_j - mean(tw))) / (w + 1),

    with the mean over the rows of this experience's classes. Evaluation uses cw. The bias is
    treated like the weights, with its own mean.
    """

    name = "cwr_star"
    paper = "Lomonaco et al., Rehearsal-Free Continual Learning over Small Non-I.I.D. Batches, 2020"
    scenarios = ("class", "domain")
    # It freezes all trained features, so another method may choose which ones these are.
    roles = ("head", "fixed weights")
    excludes: ClassVar[Mapping[str, str]] = {
        "joint training": "it consolidates the classes of one experience after the other"
    }
    capabilities = Capabilities(needs_class_labels=True, needs_boundaries=True)
    state = ("consolidated", "past")

    def __init__(self) -> None:
        self.consolidated: dict[str, Tensor] = {}
        self.past: Tensor | None = None
        self._frozen: list[nn.Parameter] = []

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Raise an error for a model without a linear head."""
        linear_head(learner, self.name)

    @hookimpl
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Put the temporary weights into the head; freeze from the second experience on."""
        head = head_of(learner)
        if not self.consolidated:
            self.consolidated = {k: torch.zeros_like(p) for k, p in head.items()}
            self.past = torch.zeros(learner.stream.n_outputs, device=head["weight"].device)
        units = list(experience.outputs)
        for name, parameter in head.items():
            parameter.zero_()
            parameter[units] = self.consolidated[name][units]
        if learner.seen:
            shared = [p for p in learner.model.features.parameters() if p.requires_grad]  # type: ignore[union-attr]
            for p in shared:
                p.requires_grad_(False)
            self._frozen = shared

    @hookimpl
    def before_epoch(self, learner: Learner) -> None:
        """Keep the running statistics of frozen features."""
        if learner.seen:
            learner.model.features.eval()  # type: ignore[union-attr]

    @hookimpl
    def after_experience(self, learner: Learner, experience: Experience, data: Data) -> None:
        """Consolidate the rows of this experience's classes and put cw into the head."""
        # Unfrozen between experiences, so that a fresh optimizer covers the same parameters.
        for p in self._frozen:
            p.requires_grad_(True)
        self._frozen = []
        assert self.past is not None  # made before the first experience
        now = torch.bincount(data.labels, minlength=learner.stream.n_outputs).to(self.past)
        units = now.nonzero().squeeze(1)
        weight = (self.past[units] / now[units]).sqrt()
        for name, parameter in head_of(learner).items():
            kept = self.consolidated[name]
            rows = parameter[units]
            share = weight.view(-1, *[1] * (rows.ndim - 1))
            kept[units] = (kept[units] * share + (rows - rows.mean())) / (share + 1)
            parameter.copy_(kept)
        self.past[units] += now[units]


def head_of(learner: Learner) -> dict[str, Tensor]:
    """Return the tensors of the head, for in-place changes."""
    return {k: p.detach() for k, p in learner.model.head.named_parameters()}  # type: ignore[union-attr]
