"""WA: new classes' weights are scaled to the length of the old ones' after training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from clframe import SettingError, hookimpl

from ._exemplars import ExemplarPlugin, Selection
from ._heads import linear_head

if TYPE_CHECKING:
    from clframe import Data, Learner, Step, Stream, Term


class WA(ExemplarPlugin):
    """WA: exemplars and distillation, followed by an alignment of the head's weights.

    Two phases. Learning (eqs. 1 to 3 of the paper), with n old and m new classes:

        L = (1 - a) L_CE + a L_KD,   a = n / (n + m),

    where L_CE is the cross-entropy over all classes and L_KD that of the old classes' softmax at
    temperature T with the former network's, both on new data and exemplars. Aligning (eqs. 6 to 8):

        gamma = mean |w_old| / mean |w_new|,   w_new becomes gamma w_new,

    where w are the rows of the head. Its bias stays unchanged: the paper's logits have none.

    The lengths of the rows must reflect the size of the logits. The paper therefore clips the
    head's weights at zero after each step, which suits features that end with a ReLU. Many programs
    leave that out (``clip=false``); on split MNIST alignment then has no effect.

    Args:
        size: Number of exemplars, shared evenly by the classes; not used with ``per_class``.
        per_class: Exemplars of each class.
        temperature: T above.
        align: Whether to align; without it the method is replay with distillation.
        clip: Clip the head's weights at zero.
        selection: Exemplars by ``herding``, or at ``random``.
    """

    name = "wa"
    paper = (
        "Zhao et al., Maintaining Discrimination and Fairness in Class Incremental Learning, 2020"
    )
    roles = (*ExemplarPlugin.roles, "head")

    def __init__(
        self,
        size: int = 2000,
        per_class: int | None = None,
        temperature: float = 2.0,
        align: bool = True,
        clip: bool = True,
        selection: Selection = "herding",
    ) -> None:
        if not temperature > 0:
            raise SettingError(f"wa.temperature must be above 0, got {temperature!r}")
        super().__init__(size, per_class, selection)
        self.temperature = temperature
        self.align = align
        self.clip = clip

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Create the buffer; raise an error for a model without a linear head."""
        linear_head(learner, self.name)
        super().configure(learner, stream)

    @hookimpl
    def penalty(self, step: Step) -> Term | None:
        """Return the distillation."""
        return self.distilled(step, self.temperature)

    @hookimpl
    def after_step(self, learner: Learner) -> None:
        """Clip the weights, with ``clip=true``."""
        if self.clip:
            _rows(learner).clamp_(min=0)

    @hookimpl
    def after_experience(self, learner: Learner, data: Data) -> None:
        """Align the new rows, then choose exemplars."""
        if self.align and len(self._old):
            weight = _rows(learner)
            weight[self._new] *= gamma(weight, self._old, self._new)
        super().after_experience(learner, data)


def _rows(learner: Learner) -> Tensor:
    """Return the weights of the head."""
    head: Any = learner.model.head
    weight: Tensor = head.weight.detach()
    return weight


def gamma(weight: Tensor, old: Tensor, new: Tensor) -> Tensor:
    """Return the mean length of the old rows over that of the new ones.

    >>> weight = torch.tensor([[3.0, 4.0], [0.0, 1.0], [6.0, 8.0]])
    >>> float(gamma(weight, torch.tensor([0, 1]), torch.tensor([2])))
    0.30000001192092896
    """
    length: Tensor = weight.norm(dim=1)
    return length[old].mean() / length[new].mean().clamp(min=torch.finfo(weight.dtype).tiny)
