"""Synaptic intelligence: importance from the path that parameters took while learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.plugins._quadratic import _QuadraticPenalty
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.learner import Learner


class SI(_QuadraticPenalty):
    """Synaptic intelligence: a penalty on moving parameters whose motion lowered the loss.

    Zenke et al., eqs. 4 and 5. While an experience is learned, every step adds to the path
    integral ``w_i += -g_i * (theta_i after the step - theta_i before)``, where ``g`` is the
    gradient of the whole loss, this penalty included. After it::

        Omega_i += w_i / ((theta_i at the end - theta_i at the start)^2 + damping)

    and from then on ``loss + c * sum_i Omega_i (theta_i - theta_i at the last end)^2``. There is
    no factor 1/2, and a negative ``w_i`` is not clipped.

    Split MNIST, van de Ven & Tolias 2019 (task / domain / class): c 50 / 500 / 0.5, damping 0.1.
    Permuted MNIST: 5 / 5 / 0.1. OpenLORIS: c 0.3, damping 0.2.

    Args:
        c: Strength of the penalty.
        damping: Keeps the importance of parameters that hardly moved finite (xi, epsilon).

    Example:
        ``clframe fit strategy=si+replay strategy.si.c=0.5``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe.plugins import SI
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [SI(c=0.5), "replay"]).strategy
        'si+replay'
    """

    name = "si"
    paper = "Zenke, Poole & Ganguli, Continual learning through synaptic intelligence, 2017"
    state: ClassVar[tuple[str, ...]] = ("quadratic", "before", "path")

    def __init__(self, c: float = 0.1, damping: float = 0.1) -> None:
        super().__init__()
        at_least(c, 0, "si.c")
        if not damping > 0:
            raise SettingError(f"si.damping must be above 0, got {damping!r}")
        self.c = c
        self.damping = damping
        # State of the current experience only; its start is set again when it begins again.
        self.parameters: dict[str, nn.Parameter] = {}
        self.start: list[Tensor] = []
        self.before: list[Tensor] = []
        self.path: list[Tensor] = []

    @property
    def factor(self) -> float:
        """The strength itself, as in the paper: there is no 1/2."""
        return self.c

    @hookimpl
    def before_experience(self, learner: Learner) -> None:
        """Start a new path at the current parameters."""
        self.parameters = learner.named_trainable()
        self.start = [p.detach().clone() for p in self.parameters.values()]
        self.before = [p.clone() for p in self.start]
        self.path = [torch.zeros_like(p) for p in self.start]

    @hookimpl
    @torch.no_grad()
    def after_step(self) -> None:
        """Add this step to the path integral: three passes over the parameters, no new memory."""
        if not self.path:  # another method tunes after the experience, when the path has ended
            return
        now: list[Tensor] = []
        path, before, gradients = [], [], []
        for p, w, b in zip(self.parameters.values(), self.path, self.before, strict=True):
            if p.grad is not None:
                now.append(p)
                path.append(w)
                before.append(b)
                gradients.append(p.grad)
        torch._foreach_sub_(before, now)  # now the negative motion
        torch._foreach_addcmul_(path, gradients, before)
        torch._foreach_copy_(before, now)

    @hookimpl
    @torch.no_grad()
    def after_experience(self) -> None:
        """Turn the path into importance and move the anchor to the current parameters."""
        strength = {}
        for (name, p), start, path in zip(
            self.parameters.items(), self.start, self.path, strict=True
        ):
            new = path / ((p - start).square() + self.damping)
            old = self.quadratic.strength.get(name)
            strength[name] = new if old is None else old + new
        self.quadratic.replace(strength, self.parameters)
        self.start, self.before, self.path = [], [], []
