"""Shrink and perturb: a warm start that learns as well as a fresh one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import torch

from clframe import Plugin, hookimpl
from clframe.utils.setting_checks import at_most, check_at_least

if TYPE_CHECKING:
    from clframe import Learner


class ShrinkPerturb(Plugin):
    """Shrink and perturb: all weights are shrunk and get noise before each new experience.

    Sec. 4 of the paper: before training on new data, every parameter becomes

        theta <- shrink theta + noise,  noise ~ N(0, sigma^2).

    Shrinking a network of rectified units hardly changes which class it prefers, but makes it
    less confident, so that the gradients of old and new data become comparable again.

    With ``when=step`` it happens after each step, as Dohare et al. (Loss of plasticity in deep
    continual learning, 2024) use it; ``shrink`` is then close to 1, and ``sigma`` small.

    Args:
        shrink: Factor of the parameters (the paper's lambda).
        sigma: Standard deviation of the noise.
        when: Before each ``experience`` but the first, or after each ``step``.
    """

    name = "shrink_perturb"
    paper = "Ash & Adams, On Warm-Starting Neural Network Training, 2020"
    roles = ("first weights",)
    excludes: ClassVar[Mapping[str, str]] = {
        "task weights": "it changes all weights",
        "fixed weights": "it changes all weights",
    }

    def __init__(
        self,
        shrink: float = 0.6,
        sigma: float = 0.01,
        when: Literal["experience", "step"] = "experience",
    ) -> None:
        self.shrink = shrink
        self.sigma = sigma
        self.when = when
        check_at_least(self, self.name, shrink=0, sigma=0)
        at_most(shrink, 1, "shrink_perturb.shrink")

    @hookimpl(tryfirst=True)
    def before_experience(self, learner: Learner) -> None:
        """Change the weights before other plugins copy the model."""
        if learner.seen and self.when == "experience":
            self.apply(learner)

    @hookimpl(tryfirst=True)
    def after_step(self, learner: Learner) -> None:
        """Change the weights after each step, with ``when=step``."""
        if self.when == "step":
            self.apply(learner)

    @torch.no_grad()
    def apply(self, learner: Learner) -> None:
        """Shrink and perturb every trained parameter."""
        for p in learner.named_trainable().values():
            noise = torch.randn(p.shape, generator=learner.generator, device=p.device)
            p.mul_(self.shrink).add_(noise.to(p.dtype), alpha=self.sigma)
