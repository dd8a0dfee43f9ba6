"""RWalk: importance from an online Fisher information and the path on the model's manifold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from clframe import Capabilities, Plugin, SettingError, hookimpl
from clframe.utils.setting_checks import at_most, check_at_least

if TYPE_CHECKING:
    from clframe import Learner


class RWalk(Plugin):
    """RWalk: a penalty weighted by Fisher information and by how much motion lowered the loss.

    With g the gradient of the loss (without this penalty) at each step, over windows of
    ``interval`` steps (equations of the paper):

        F <- alpha mean(g^2) + (1 - alpha) F                                            (6)
        s <- s + max(0, sum(-g dtheta) / (F Delta^2 / 2 + epsilon))                     (7)

    where dtheta is the motion of a step, Delta that of the window, and F in eq. 7 the one of the
    window's start: its denominator is the change of the model's distribution (KL divergence) that
    the motion caused. After an experience the scores are averaged with those before,
    s <- (s_old + s_new) / 2, both F and s are scaled to 0..1 over all parameters, and from then on

        loss + weight sum_i (F_i + s_i) (theta_i - theta_i at the last end)^2.          (8)

    The paper writes eq. 6 for every step. Its authors' program (facebookresearch/agem) applies it
    once per window, as here; ``interval=1`` is the paper's form. That program also drops the 1/2 of
    eq. 7 and adds the averaged scores to the old ones; here the paper is followed. g^2 is that of a
    batch's mean loss, as in the program. A window that ends with the experience counts.

    Args:
        weight: Strength of the penalty (the paper's lambda; 1 in the authors' later experiments).
        alpha: Share of the newest window in the Fisher information.
        interval: Steps of a window (the paper's Delta t: 10 for MNIST, 50 for CIFAR).
        epsilon: Keeps scores of parameters that hardly moved finite.
    """

    name = "rwalk"
    paper = (
        "Chaudhry et al., Riemannian Walk for Incremental Learning: Understanding Forgetting and "
        "Intransigence, 2018"
    )
    roles = ("weight penalty",)
    capabilities = Capabilities(needs_boundaries=True)
    state = ("fisher", "scores", "strength", "anchor", "gained", "path", "squares", "before",
             "origin", "steps")  # fmt: skip

    def __init__(
        self, weight: float = 1.0, alpha: float = 0.9, interval: int = 10, epsilon: float = 1e-3
    ) -> None:
        self.weight = weight
        self.alpha = alpha
        self.interval = interval
        self.epsilon = epsilon
        check_at_least(self, self.name, weight=0, alpha=0, interval=1)
        at_most(alpha, 1, "rwalk.alpha")
        if not epsilon > 0:
            raise SettingError(f"rwalk.epsilon must be above 0, got {epsilon!r}")
        self.fisher: dict[str, Tensor] = {}
        self.scores: dict[str, Tensor] = {}
        self.strength: dict[str, Tensor] = {}
        self.anchor: dict[str, Tensor] = {}
        # State of the current experience and of its current window.
        self.gained: dict[str, Tensor] = {}
        self.path: dict[str, Tensor] = {}
        self.squares: dict[str, Tensor] = {}
        self.before: dict[str, Tensor] = {}
        self.origin: dict[str, Tensor] = {}
        self.steps = 0
        self._parameters: dict[str, nn.Parameter] = {}
        self._gradients: dict[str, Tensor] = {}

    @hookimpl
    def before_experience(self, learner: Learner) -> None:
        """Start a path at the current parameters."""
        self._parameters = learner.named_trainable()
        now = {name: p.detach() for name, p in self._parameters.items()}
        self.before = {name: p.clone() for name, p in now.items()}
        self.origin = {name: p.clone() for name, p in now.items()}
        self.path = {name: torch.zeros_like(p) for name, p in now.items()}
        self.squares = {name: torch.zeros_like(p) for name, p in now.items()}
        self.gained = {name: torch.zeros_like(p) for name, p in now.items()}
        self.steps = 0

    @hookimpl
    def penalty(self) -> Tensor | None:
        """Return the quadratic penalty, or None before something has been learned."""
        held = [name for name in self.strength if name in self._parameters]
        if not held or not self.weight:
            return None
        apart = torch._foreach_sub(
            [self._parameters[name] for name in held], [self.anchor[name] for name in held]
        )
        terms = [(self.strength[n] * d.square()).sum() for n, d in zip(held, apart, strict=True)]
        return self.weight * torch.stack(terms).sum()

    @hookimpl(tryfirst=True)
    @torch.no_grad()
    def after_backward(self) -> None:
        """Keep the gradient of the loss without this penalty, before others change it."""
        self._gradients = {}
        for name, p in self._parameters.items():
            if p.grad is None:
                continue
            if name in self.strength:
                pull = self.strength[name] * (p - self.anchor[name])
                self._gradients[name] = p.grad.sub(pull, alpha=2.0 * self.weight)
            else:
                self._gradients[name] = p.grad.clone()

    @hookimpl
    @torch.no_grad()
    def after_step(self) -> None:
        """Add the step to the window, and close the window when it is full."""
        names = list(self._gradients)
        if not names:
            return
        gradients = list(self._gradients.values())
        now = [self._parameters[name].detach() for name in names]
        before = [self.before[name] for name in names]
        if not self.fisher:
            self.fisher = {name: g.square() for name, g in self._gradients.items()}
        torch._foreach_addcmul_([self.squares[name] for name in names], gradients, gradients)
        torch._foreach_sub_(before, now)  # the negative motion
        torch._foreach_addcmul_([self.path[name] for name in names], gradients, before)
        torch._foreach_copy_(before, now)
        self.steps += 1
        if self.steps == self.interval:
            self._close_window()

    def _close_window(self) -> None:
        """Turn the window's path into scores (eq. 7), then add its gradients (eq. 6)."""
        for name, p in self._parameters.items():
            newest = self.squares[name] / self.steps
            fisher = self.fisher.setdefault(name, newest)
            change = 0.5 * fisher * (p - self.origin[name]).square() + self.epsilon
            self.gained[name] += (self.path[name] / change).clamp_(min=0)
            self.fisher[name] = self.alpha * newest + (1 - self.alpha) * fisher
            self.origin[name].copy_(p)
            self.path[name].zero_()
            self.squares[name].zero_()
        self.steps = 0

    @hookimpl
    @torch.no_grad()
    def after_experience(self) -> None:
        """Average the scores, scale both parts and move the anchor."""
        if self.steps:
            self._close_window()
        if self.fisher:
            for name, new in self.gained.items():
                old = self.scores.get(name)
                self.scores[name] = new if old is None else 0.5 * (old + new)
            fisher, scores = scaled(self.fisher), scaled(self.scores)
            self.strength = {name: fisher[name] + scores[name] for name in self.gained}
            self.anchor = {name: self._parameters[name].detach().clone() for name in self.strength}
        self.gained, self.path, self.squares, self.before, self.origin = {}, {}, {}, {}, {}
        self._gradients = {}


def scaled(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the values scaled to 0..1 over all tensors together.

    >>> {k: v.tolist() for k, v in scaled({"a": torch.tensor([1.0, 3.0])}).items()}
    {'a': [0.0, 1.0]}
    """
    low = torch.stack([value.min() for value in values.values()]).min()
    high = torch.stack([value.max() for value in values.values()]).max()
    width = (high - low).clamp(min=torch.finfo(low.dtype).tiny)
    return {name: (value - low) / width for name, value in values.items()}
