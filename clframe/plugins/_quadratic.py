"""One quadratic form over the model's parameters, whatever the number of experiences.

EWC, SI and MAS all pull each parameter back to an anchor with a strength of its own. A sum of such
terms is again one such term, so neither memory nor time per step grows with what was learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class Quadratic:
    """``sum_i strength_i * (theta_i - anchor_i)^2 + constant``, empty at first.

    The terms are kept by the parameter's name; a parameter that is not named is free.
    """

    def __init__(self) -> None:
        self.strength: dict[str, Tensor] = {}
        self.anchor: dict[str, Tensor] = {}
        self.constant: Tensor | None = None
        self._bound: tuple[list[Tensor], list[Tensor], list[nn.Parameter]] | None = None

    def __bool__(self) -> bool:
        return bool(self.strength)

    def replace(self, strength: Mapping[str, Tensor], anchor: Mapping[str, Tensor]) -> None:
        """Forget the old term and take this one."""
        self.strength = dict(strength)
        self.anchor = {name: anchor[name].detach().clone() for name in strength}
        self.constant = None
        self._bound = None

    @torch.no_grad()
    def add(self, strength: Mapping[str, Tensor], anchor: Mapping[str, Tensor]) -> None:
        """Add another term; strengths must not be negative.

        With ``S = A + F`` the sum ``A (t - M)^2 + F (t - a)^2`` is
        ``S (t - (M + F/S (a - M)))^2 + A F/S (a - M)^2``. Unlike the expanded square this form
        loses no digits when strengths are large and parameters stay near their anchors.
        """
        self._bound = None
        for name, added in strength.items():
            new = anchor[name].detach()
            if name not in self.strength:
                self.strength[name], self.anchor[name] = added.clone(), new.clone()
                continue
            old = self.strength[name]
            total = old + added
            # Where both are zero the share is zero as well.
            share = added / total.clamp(min=torch.finfo(total.dtype).tiny)
            distance = new - self.anchor[name]
            fixed = (old * share * distance.square()).sum(dtype=torch.float64)
            self.constant = fixed if self.constant is None else self.constant + fixed
            self.anchor[name] = self.anchor[name] + share * distance
            self.strength[name] = total

    def value(self, model: nn.Module, factor: float) -> Tensor:
        """``factor`` times the form at the model's parameters, with its gradient."""
        if self._bound is None:
            parameters = dict(model.named_parameters())
            self._bound = (
                list(self.strength.values()),
                list(self.anchor.values()),
                [parameters[name] for name in self.strength],
            )
        strength, anchor, bound = self._bound
        value: Tensor = _Pull.apply(factor, strength, anchor, *bound)
        return value if self.constant is None else value + factor * self.constant.to(value.dtype)

    def state_dict(self) -> dict[str, Any]:
        """Strengths, anchors and the constant."""
        return {"strength": self.strength, "anchor": self.anchor, "constant": self.constant}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` gave."""
        self.strength, self.anchor = dict(state["strength"]), dict(state["anchor"])
        self.constant = state["constant"]
        self._bound = None


class _Pull(torch.autograd.Function):
    """The form with its gradient written out: half the time of what autograd makes of it."""

    @staticmethod
    def forward(
        ctx: Any, factor: float, strength: list[Tensor], anchor: list[Tensor], *theta: Tensor
    ) -> Tensor:
        distance = torch._foreach_sub(theta, anchor)
        pull = torch._foreach_mul(distance, strength)
        ctx.pull, ctx.factor = pull, factor
        parts = [torch.dot(p.flatten(), d.flatten()) for p, d in zip(pull, distance, strict=True)]
        return factor * torch.stack(parts).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        return (None, None, None, *torch._foreach_mul(ctx.pull, 2.0 * ctx.factor * gradient))
