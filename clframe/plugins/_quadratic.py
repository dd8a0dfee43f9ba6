"""A single quadratic form over the model's parameters, for any number of experiences.

EWC, SI and MAS all pull each parameter back to an anchor, each with its own strength. A sum of such
terms is again one such term, so neither memory nor time per step grows with the experiences.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.hookspecs import hookimpl
from clframe.plugins._proximal import check_optimizer, proximal_step

if TYPE_CHECKING:
    from clframe.core.learner import Learner


PenaltyStep: TypeAlias = Literal["gradient", "proximal"]


class _QuadraticPenalty(Plugin, abc.ABC):
    """Base of penalties: ``factor`` times a quadratic form, updated in ``after_experience``."""

    roles = ("weight penalty",)
    capabilities = Capabilities(batched_seeds=True, needs_boundaries=True)
    state: ClassVar[tuple[str, ...]] = ("quadratic",)

    def __init__(self) -> None:
        self.quadratic = Quadratic()

    @property
    @abc.abstractmethod
    def factor(self) -> float:
        """Factor of the quadratic form in the loss."""

    @hookimpl
    def configure(self) -> None:
        """Start with no anchor."""
        self.quadratic = Quadratic()

    @hookimpl
    def penalty(self, learner: Learner) -> Tensor | None:
        """Return the quadratic penalty, or None before something has been learned."""
        return self.quadratic.value(learner.model, self.factor) if self.quadratic else None


class _ConvexPenalty(_QuadraticPenalty):
    """A quadratic penalty whose strengths are never negative, so that it has a proximal step.

    Args:
        step: ``gradient`` makes it a term of the loss; ``proximal`` takes the implicit step of
            :mod:`clframe.plugins._proximal` after the optimizer's.
    """

    def __init__(self, step: PenaltyStep) -> None:
        super().__init__()
        self.step: PenaltyStep = step
        if step == "proximal":
            # A stack of seeds keeps the optimizer's state outside of the learners' optimizers.
            self.capabilities = replace(self.capabilities, batched_seeds=False)

    @hookimpl
    def before_experience(self, learner: Learner) -> None:
        """Raise an error for an optimizer without a proximal step."""
        if self.step == "proximal":
            check_optimizer(learner.optimizer, self.name)

    @hookimpl
    def penalty(self, learner: Learner) -> Tensor | None:
        """Return the penalty as a term of the loss, with ``step=gradient``."""
        return super().penalty(learner) if self.step == "gradient" else None

    @hookimpl
    def after_step(self, learner: Learner) -> None:
        """Take the penalty's implicit step, with ``step=proximal``."""
        if self.step == "proximal" and self.quadratic:
            assert learner.optimizer is not None
            self.quadratic.pull(learner.model, self.factor, learner.optimizer)


class Quadratic:
    """``sum_i strength_i * (theta_i - anchor_i)^2 + constant``, empty at first.

    The terms are kept by parameter name; a parameter without a term is free.
    """

    def __init__(self) -> None:
        self.strength: dict[str, Tensor] = {}
        self.anchor: dict[str, Tensor] = {}
        self.constant: Tensor | None = None
        self._bound: _Bound | None = None

    def __bool__(self) -> bool:
        return bool(self.strength)

    def replace(self, strength: Mapping[str, Tensor], anchor: Mapping[str, Tensor]) -> None:
        """Replace the form with this term."""
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
        """Return ``factor`` times the form at the model's parameters, with its gradient."""
        bound = self._bind(model, factor)
        value: Tensor = _Pull.apply(bound, *bound.parameters)
        return value if bound.constant is None else value + bound.constant

    def pull(self, model: nn.Module, factor: float, optimizer: torch.optim.Optimizer) -> None:
        """Take the proximal step of ``factor`` times the form on the model's parameters."""
        bound = self._bind(model, factor)
        proximal_step(optimizer, bound.parameters, bound.pull, bound.anchor)

    def _bind(self, model: nn.Module, factor: float) -> _Bound:
        if self._bound is None or self._bound.factor != factor:
            self._bound = self._make_bound(model, factor)
        return self._bound

    def _make_bound(self, model: nn.Module, factor: float) -> _Bound:
        parameters = dict(model.named_parameters())
        constant = self.constant
        first = next(iter(self.strength.values()))
        on_cpu = first.device.type == "cpu"
        return _Bound(
            factor,
            # Multiply the factor, and the 2 of the gradient, in once instead of at each step.
            torch._foreach_mul(list(self.strength.values()), 2.0 * factor),
            list(self.anchor.values()),
            [parameters[name] for name in self.strength],
            None if constant is None else (factor * constant).to(first.dtype),
            [torch.empty_like(value) for value in self.anchor.values()] if on_cpu else [],
        )

    def state_dict(self) -> dict[str, Any]:
        """Return strengths, anchors and the constant."""
        return {"strength": self.strength, "anchor": self.anchor, "constant": self.constant}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of :meth:`state_dict`."""
        self.strength, self.anchor = dict(state["strength"]), dict(state["anchor"])
        self.constant = state["constant"]
        self._bound = None


class _Bound(NamedTuple):
    """The tensors that a step needs, bound to the model's parameters."""

    factor: float
    pull: tuple[Tensor, ...]
    anchor: list[Tensor]
    parameters: list[nn.Parameter]
    constant: Tensor | None
    work: list[Tensor]


class _Pull(torch.autograd.Function):
    """The form with an explicit gradient, in a third of autograd's time.

    The cost is passes over memory. On a CPU the distance is therefore written over that of the last
    step, and the gradient is handed on without a reference: autograd then adds the rest of the
    loss's gradient in place.
    """

    @staticmethod
    def forward(ctx: Any, bound: _Bound, *theta: Tensor) -> Tensor:
        ctx.bound, ctx.theta = bound, theta
        ctx.gradient, distance = _gradient(bound, theta)
        terms = [
            torch.dot(g.flatten(), d.flatten()) for g, d in zip(ctx.gradient, distance, strict=True)
        ]
        return torch.stack(terms).sum().mul_(0.5)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        own, ctx.gradient = ctx.gradient, None
        if own is None:  # second backward pass through a retained graph
            own, _ = _gradient(ctx.bound, ctx.theta)
        # Skip the multiplication by 1 if reading the factor does not wait for a device.
        if gradient.device.type == "cpu" and float(gradient) == 1.0:
            return (None, *own)
        return (None, *torch._foreach_mul(own, gradient))


def _gradient(
    bound: _Bound, theta: tuple[Tensor, ...]
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the form's gradient, and the distances of parameters from their anchors."""
    if bound.work:
        for p, anchor, room in zip(theta, bound.anchor, bound.work, strict=True):
            torch.sub(p, anchor, out=room)
        distance = tuple(bound.work)
    else:
        distance = torch._foreach_sub(theta, bound.anchor)
    return torch._foreach_mul(distance, bound.pull), distance
