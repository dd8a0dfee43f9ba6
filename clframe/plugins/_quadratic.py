"""One quadratic form over the model's parameters, whatever the number of experiences.

EWC, SI and MAS all pull each parameter back to an anchor with a strength of its own. A sum of such
terms is again one such term, so neither memory nor time per step grows with what was learned.
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
    """Adds ``factor`` times a quadratic form to the loss, which ``after_experience`` updates."""

    roles = ("weight penalty",)
    capabilities = Capabilities(batched_seeds=True, needs_boundaries=True)
    state: ClassVar[tuple[str, ...]] = ("quadratic",)

    def __init__(self) -> None:
        self.quadratic = Quadratic()

    @property
    @abc.abstractmethod
    def factor(self) -> float:
        """What the quadratic form is multiplied by in the loss."""

    @hookimpl
    def configure(self) -> None:
        """Start with no anchor."""
        self.quadratic = Quadratic()

    @hookimpl
    def penalty(self, learner: Learner) -> Tensor | None:
        """The quadratic penalty; none before something has been learned."""
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
            # The optimizer of a stack of seeds keeps its state from the learners' own.
            self.capabilities = replace(self.capabilities, batched_seeds=False)

    @hookimpl
    def before_experience(self, learner: Learner) -> None:
        """Refuse an optimizer for which there is no proximal step."""
        if self.step == "proximal":
            check_optimizer(learner.optimizer, self.name)

    @hookimpl
    def penalty(self, learner: Learner) -> Tensor | None:
        """The penalty as a term of the loss, if that is wanted."""
        return super().penalty(learner) if self.step == "gradient" else None

    @hookimpl
    def after_step(self, learner: Learner) -> None:
        """The penalty as a step of its own, if that is wanted."""
        if self.step == "proximal" and self.quadratic:
            assert learner.optimizer is not None
            self.quadratic.pull(learner.model, self.factor, learner.optimizer)


class Quadratic:
    """``sum_i strength_i * (theta_i - anchor_i)^2 + constant``, empty at first.

    The terms are kept by the parameter's name; a parameter that is not named is free.
    """

    def __init__(self) -> None:
        self.strength: dict[str, Tensor] = {}
        self.anchor: dict[str, Tensor] = {}
        self.constant: Tensor | None = None
        self._bound: _Bound | None = None

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
        bound = self._bind(model, factor)
        value: Tensor = _Pull.apply(bound, *bound.parameters)
        return value if bound.constant is None else value + bound.constant

    def pull(self, model: nn.Module, factor: float, optimizer: torch.optim.Optimizer) -> None:
        """The proximal step of ``factor`` times the form on the model's parameters."""
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
            # The factor, and the 2 of the gradient, are multiplied in once instead of at each step.
            torch._foreach_mul(list(self.strength.values()), 2.0 * factor),
            list(self.anchor.values()),
            [parameters[name] for name in self.strength],
            None if constant is None else (factor * constant).to(first.dtype),
            [torch.empty_like(value) for value in self.anchor.values()] if on_cpu else [],
        )

    def state_dict(self) -> dict[str, Any]:
        """Strengths, anchors and the constant."""
        return {"strength": self.strength, "anchor": self.anchor, "constant": self.constant}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` gave."""
        self.strength, self.anchor = dict(state["strength"]), dict(state["anchor"])
        self.constant = state["constant"]
        self._bound = None


class _Bound(NamedTuple):
    """What a step needs of the form, with the model's parameters found."""

    factor: float
    pull: tuple[Tensor, ...]
    anchor: list[Tensor]
    parameters: list[nn.Parameter]
    constant: Tensor | None
    work: list[Tensor]


class _Pull(torch.autograd.Function):
    """The form with its gradient written out: a third of the time of what autograd makes of it.

    What it costs is passes over memory. So on a CPU the distance is put where that of the last
    step was, and the gradient is handed on without keeping hold of it: autograd then adds the
    rest of the loss's gradient in place.
    """

    @staticmethod
    def forward(ctx: Any, bound: _Bound, *theta: Tensor) -> Tensor:
        ctx.bound, ctx.theta = bound, theta
        ctx.gradient, distance = _gradient(bound, theta)
        parts = [
            torch.dot(g.flatten(), d.flatten()) for g, d in zip(ctx.gradient, distance, strict=True)
        ]
        return torch.stack(parts).sum().mul_(0.5)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        own, ctx.gradient = ctx.gradient, None
        if own is None:  # a second time through a graph that was retained
            own, _ = _gradient(ctx.bound, ctx.theta)
        # Where looking does not mean waiting for a device, a factor of 1 is not multiplied in.
        if gradient.device.type == "cpu" and float(gradient) == 1.0:
            return (None, *own)
        return (None, *torch._foreach_mul(own, gradient))


def _gradient(
    bound: _Bound, theta: tuple[Tensor, ...]
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The form's gradient, and how far parameters are from their anchors."""
    if bound.work:
        for p, anchor, room in zip(theta, bound.anchor, bound.work, strict=True):
            torch.sub(p, anchor, out=room)
        distance = tuple(bound.work)
    else:
        distance = torch._foreach_sub(theta, bound.anchor)
    return torch._foreach_mul(distance, bound.pull), distance
