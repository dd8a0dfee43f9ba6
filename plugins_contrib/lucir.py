"""LUCIR: a cosine classifier, features that keep their direction, and separated classes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe import hookimpl
from clframe.data.class_buffer import features_of
from clframe.utils.setting_checks import check_at_least

from ._exemplars import ExemplarPlugin, Selection
from ._heads import linear_head

if TYPE_CHECKING:
    from clframe import Experience, Learner, Step, Stream


class CosineHead(nn.Module):
    """Logits ``eta cos(w_k, f)`` of features f: eq. 4 of LUCIR's paper, with eta learned.

    Args:
        n_features: Length of the features.
        n_outputs: Number of output units.
        eta: Initial value of eta.
    """

    def __init__(self, n_features: int, n_outputs: int, eta: float = 1.0) -> None:
        super().__init__()
        bound = 1 / math.sqrt(n_features)
        self.weight = nn.Parameter(torch.empty(n_outputs, n_features).uniform_(-bound, bound))
        self.eta = nn.Parameter(torch.tensor(eta))

    def cosines(self, features: Tensor) -> Tensor:
        """Return the cosine of each feature vector with each class's embedding."""
        direction = functional.normalize(self.weight, dim=1)
        return functional.normalize(features.flatten(1).float(), dim=1) @ direction.T

    def forward(self, features: Tensor) -> Tensor:
        """Return one logit per output unit."""
        return self.eta * self.cosines(features)


class LUCIR(ExemplarPlugin):
    """LUCIR: a cosine classifier that keeps features' directions and separates classes.

    Section 3 of the paper; the loss of a step on new data and exemplars (eq. 9) is

        mean (L_ce + lambda L_G) + mean over samples of old classes of L_mr

    * L_ce: the cross-entropy of eta cos(w_k, f), eta learned, which replaces the head (eq. 4).
    * L_G, less forgetting (eq. 6): 1 - cos(f*, f) with the former network's features f*; the
      embeddings w of old classes are fixed. lambda = ``weight`` sqrt(old / new classes), larger the
      more there is to keep, as in the text and the authors' program (in the formula of the
      paper the fraction is upside down).
    * L_mr, inter-class separation (eq. 8): the sum over the K new classes with the largest cosine
      of max(0, margin - cos(w_y, f) + cos(w_k, f)).

    As in the authors' program, a new class's embedding starts as the mean direction of its
    samples' features, with the mean length of old embeddings (``imprint``). The paper removes
    the last ReLU of the network, so that features can point anywhere; so does this plugin if
    `features` is a sequence that ends with one. The paper's additional fine-tuning on balanced
    exemplars is left out.

    Args:
        per_class: Exemplars of each class.
        size: Number of exemplars; used when ``per_class`` is null.
        weight: Weight of less forgetting (5 for CIFAR-100 in the paper, 10 for ImageNet).
        k: Number of new classes that an old sample is separated from (K).
        margin: Margin of the separation.
        eta: Initial value of the learned scale of logits. With 1, as in the authors' program, it
            takes thousands of steps to grow; start higher (10) if there are only hundreds.
        imprint: Whether new embeddings start as mean features.
        selection: Exemplars by ``herding``, as in the paper, or at ``random``.
    """

    name = "lucir"
    paper = "Hou et al., Learning a Unified Classifier Incrementally via Rebalancing, 2019"
    roles = (*ExemplarPlugin.roles, "head", "new head")

    def __init__(
        self,
        per_class: int | None = 20,
        size: int = 2000,
        weight: float = 5.0,
        k: int = 2,
        margin: float = 0.5,
        eta: float = 1.0,
        imprint: bool = True,
        selection: Selection = "herding",
    ) -> None:
        super().__init__(size, per_class, selection)
        self.weight = weight
        self.k = k
        self.margin = margin
        self.eta = eta
        self.imprint = imprint
        check_at_least(self, self.name, weight=0, k=1, margin=0, eta=0)
        self._fixed: Tensor | None = None
        self._is_old: Tensor | None = None

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Replace the linear head by a cosine head, and create the buffer."""
        linear = linear_head(learner, self.name)
        learner.set_head(CosineHead(linear.in_features, linear.out_features, self.eta))
        body = learner.model.features
        if isinstance(body, nn.Sequential) and isinstance(body[-1], nn.ReLU):
            body[-1] = nn.Identity()
        self._fixed = None
        super().configure(learner, stream)

    @hookimpl
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Copy the network, imprint the new embeddings, fix the old ones."""
        super().before_experience(learner, experience)
        self._fixed = None
        if self._teacher is None:
            return
        weight = head_of(learner).weight.detach()
        self._is_old = torch.zeros(len(weight), dtype=torch.bool, device=weight.device)
        self._is_old[self._old] = True
        if self.imprint:
            length = weight[self._old].norm(dim=1).mean()
            data = experience.data.to(weight.device)
            member = functional.one_hot(data.labels, len(weight)).T[self._new].float()
            # Classes without samples keep their embeddings.
            present = member.any(1)
            means = functional.normalize(member @ features_of(learner, data), dim=1) * length
            weight[self._new] = torch.where(present[:, None], means, weight[self._new])
        self._fixed = weight.clone()

    @hookimpl
    def penalty(self, learner: Learner, step: Step) -> Tensor | None:
        """Return less forgetting and the separation of classes; None without old classes."""
        if self._teacher is None:
            return None
        features, batch = step.features[0], step.batch
        with torch.no_grad():
            former = self._teacher.features(batch.x)  # type: ignore[operator]
        kept = self.weight * math.sqrt(self.old_share) * less_forget(former, features)
        cosines = head_of(learner).cosines(features)
        assert self._is_old is not None
        old = self._is_old[batch.y]
        return kept + separation(cosines, batch.y, old, self._new, self.k, self.margin)

    @hookimpl
    def after_step(self, learner: Learner) -> None:
        """Restore the embeddings of old classes after the optimizer's step."""
        if self._fixed is not None:
            weight = head_of(learner).weight.detach()
            weight.index_copy_(0, self._old, self._fixed[self._old])


def head_of(learner: Learner) -> CosineHead:
    """Return the model's cosine head."""
    head = learner.model.head
    assert isinstance(head, CosineHead)
    return head


def less_forget(former: Tensor, features: Tensor) -> Tensor:
    """Return ``1 - cos`` of former and present features, mean over samples."""
    former, features = former.flatten(1).float(), features.flatten(1).float()
    return 1 - functional.cosine_similarity(former, features, dim=1).mean()


def separation(
    cosines: Tensor, labels: Tensor, old: Tensor, new: Tensor, k: int, margin: float
) -> Tensor:
    """Return how far old classes' samples are from ``margin`` closer to their own than to new.

    Args:
        cosines: Cosine of each sample with each class's embedding.
        labels: One label per sample.
        old: Whether each sample is of an old class.
        new: The new classes.
        k: How many of these count for a sample: those with the largest cosine.
        margin: Margin in cosines.
    """
    own = cosines.gather(1, labels[:, None])
    rivals = cosines.index_select(1, new).topk(min(k, len(new)), dim=1).values
    of_each = (margin - own + rivals).clamp(min=0).sum(1)
    return (of_each * old).sum() / old.sum().clamp(min=1)
