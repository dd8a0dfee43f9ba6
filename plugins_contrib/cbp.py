"""Continual backpropagation: the least useful units restart, so that the network stays plastic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from clframe import Plugin, SettingError, hookimpl
from clframe.utils.setting_checks import at_most, check_at_least

from ._layers import Hidden, draw_like, hidden_layers

if TYPE_CHECKING:
    from clframe import Learner


class ContinualBackprop(Plugin):
    """Continual backpropagation: at every step, a small share of the least useful units restarts.

    Algorithm 1 of the paper, after each step of the optimizer and for each hidden layer l:

        u_i <- decay u_i + (1 - decay) mean|h_i| sum_k |w_ik|     utility of unit i
        c   <- c + rate (number of units older than ``maturity`` steps)

    and while c is at least 1, the mature unit with the least utility restarts: its incoming
    weights are drawn from their initial distribution, its bias and its outgoing weights become 0,
    so do its utility and its age, and c falls by 1. |h_i| is the mean over the step's samples of
    the next layer's input (over all places of a convolution's channel). The optimizer's moments
    of these weights are set to 0.

    The "initial distribution" is a draw from the layer's own first weights, whatever their
    distribution was. The authors' program differs in two points, available as ``form=code``: it
    compares u_i / (1 - decay^age), and before the outgoing weights become 0 it adds the unit's mean
    output, times these weights, to the next layer's bias.

    Args:
        rate: Share of the mature units that is replaced in a step (the paper's rho).
        maturity: Steps during which a new unit is not replaced.
        decay: Decay of the running utility (the paper's eta).
        form: ``paper`` or ``code``, as above.
    """

    name = "cbp"
    paper = "Dohare et al., Loss of plasticity in deep continual learning, 2024"
    roles = ("units",)
    excludes: ClassVar[Mapping[str, str]] = {
        "task weights": "it replaces units that the current task does not use, which are those of "
        "past tasks",
        "fixed weights": "it replaces units of layers that must stay",
        "new head": "it reads the utility of the last units from a linear head",
    }
    state = ("utility", "means", "ages", "due", "births", "steps")

    def __init__(
        self,
        rate: float = 1e-4,
        maturity: int = 100,
        decay: float = 0.99,
        form: Literal["paper", "code"] = "paper",
    ) -> None:
        self.rate = rate
        self.maturity = maturity
        self.decay = decay
        self.form = form
        check_at_least(self, self.name, rate=0, maturity=0, decay=0)
        at_most(rate, 1, "cbp.rate")
        if not decay < 1:
            raise SettingError(f"cbp.decay must be below 1, got {decay!r}")
        self.utility: list[Tensor] = []
        self.means: list[Tensor] = []
        """Running means of each unit's output to the next layer, for ``form=code``."""
        self.ages: list[Tensor] = []
        self.due: list[float] = []
        """For each layer the paper's c: how many units are to be replaced, as a fraction."""
        self.births: list[list[int]] = []
        """For each layer the steps at which units were replaced that are not mature yet."""
        self.steps = 0
        self._layers: list[Hidden] = []
        self._first: list[Tensor] = []
        self._sums: dict[int, tuple[Tensor, Tensor]] = {}
        self._looking = True

    @hookimpl
    def configure(self, learner: Learner) -> None:
        """Find the hidden layers and keep their initial weights."""
        self._layers = hidden_layers(learner, self.name, "replaces single units")
        device = learner.engine.device
        self._first = [hidden.layer.weight.detach().clone().to(device) for hidden in self._layers]
        self.utility = [torch.zeros(hidden.width, device=device) for hidden in self._layers]
        self.ages = [torch.zeros(hidden.width, device=device) for hidden in self._layers]
        self.means = []
        if self.form == "code":
            self.means = [torch.zeros(h.outgoing.shape[1:], device=device) for h in self._layers]
        self.due = [0.0] * len(self._layers)
        self.births = [[] for _ in self._layers]
        for number, hidden in enumerate(self._layers):
            hidden.following.register_forward_pre_hook(self._look(learner, number, hidden))

    def _look(self, learner: Learner, number: int, hidden: Hidden) -> Callable[..., None]:
        """Return a hook that sums the units' outputs over samples in the step's own pass."""

        def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            if module is not hidden.following or not (module.training and self._looking):
                return
            if not torch.is_grad_enabled():
                return
            x = inputs[0].detach().float()
            ranks = learner.engine.ranks
            rows = len(x)
            plain, magnitudes = _by_unit(x, hidden.width), _by_unit(x.abs(), hidden.width)
            if ranks is not None and ranks.valid_mask is not None:
                # Each process has a share; rows that pad a share do not count.
                rows = ranks.global_rows
                valid = ranks.valid_mask.to(x.dtype)[:, None, None]
                plain, magnitudes = plain * valid, magnitudes * valid
            self._sums[number] = (magnitudes.sum(0) / rows, plain.sum(0) / rows)

        return hook

    @hookimpl
    def before_epoch(self) -> None:
        """Record the next pass with gradients, which is a step's."""
        self._looking, self._sums = True, {}

    @hookimpl(tryfirst=True)
    def after_backward(self) -> None:
        """Do not record passes of other plugins."""
        self._looking = False

    @hookimpl(trylast=True)
    @torch.no_grad()
    def after_step(self, learner: Learner) -> None:
        """Update utilities and replace the units that are due."""
        self._looking = True
        if len(self._sums) < len(self._layers):
            return
        learner.engine.sum(
            {f"{n}.{k}": t for n, pair in self._sums.items() for k, t in enumerate(pair)}
        )
        self.steps += 1
        for number, hidden in enumerate(self._layers):
            magnitude, mean = self._sums[number]
            contribution = (magnitude * hidden.outgoing.abs().sum(0)).sum(1)
            self.ages[number] += 1
            self.utility[number].lerp_(contribution, 1 - self.decay)
            if self.means:
                self.means[number].lerp_(mean, 1 - self.decay)
            count = self._count_due(number, hidden.width)
            if count:
                self._replace(learner, number, hidden, count)
        self._sums = {}

    def _count_due(self, number: int, width: int) -> int:
        """Return how many units to replace; only ages count, so the device is not read."""
        births = [born for born in self.births[number] if self.steps - born <= self.maturity]
        mature = width - len(births) if self.steps > self.maturity else 0
        self.due[number] += self.rate * mature
        count = min(int(self.due[number]), mature)
        self.due[number] -= count
        self.births[number] = births + [self.steps] * count
        return count

    def _replace(self, learner: Learner, number: int, hidden: Hidden, count: int) -> None:
        """Restart the least useful mature units."""
        utility, ages = self.utility[number], self.ages[number]
        grown = 1 - self.decay**ages
        compared = utility / grown if self.form == "code" else utility
        compared = compared.masked_fill(ages <= self.maturity, torch.inf)
        units = compared.argsort(stable=True)[:count]
        weight, bias = hidden.layer.weight, hidden.layer.bias
        shape = (count, *weight.shape[1:])
        weight.index_copy_(0, units, draw_like(self._first[number], shape, learner.generator))
        if self.means:
            if hidden.following.bias is not None:
                mean_output = self.means[number][units] / grown[units, None]
                hidden.following.bias += (hidden.outgoing[:, units] * mean_output).sum((1, 2))
            self.means[number].index_fill_(0, units, 0.0)
        hidden.outgoing.index_fill_(1, units, 0.0)
        moments = _moments(learner, weight)
        if bias is not None:
            bias.index_fill_(0, units, 0.0)
            moments += _moments(learner, bias)
        for moment in moments:
            moment.index_fill_(0, units, 0.0)
        for moment in _moments(learner, hidden.following.weight):
            moment.view(hidden.outgoing.shape).index_fill_(1, units, 0.0)
        utility.index_fill_(0, units, 0.0)
        ages.index_fill_(0, units, 0.0)


def _by_unit(x: Tensor, width: int) -> Tensor:
    """Return a layer's inputs as (samples, units before it, places with their own weights).

    A convolution uses the same weights at all pixels, so they are one place.
    """
    if x.dim() == 4:
        return x.mean((2, 3)).unsqueeze(2)
    return x.view(len(x), width, -1)


def _moments(learner: Learner, parameter: Tensor) -> list[Tensor]:
    """Return the optimizer's state of each entry of a parameter."""
    optimizer: Any = learner.optimizer
    kept = getattr(optimizer, "optimizer", optimizer).state.get(parameter, {})
    return [
        value
        for value in kept.values()
        if isinstance(value, Tensor) and value.shape == parameter.shape
    ]
