"""Optimizers by name, with PyTorch's own defaults unless noted otherwise.

One default differs: ``fused=None`` uses PyTorch's fused step if the parameters support it. It is
two to three times faster on a CPU and equal up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.registry import Registry

Factory = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


def adam(
    lr: float = 1e-3,
    weight_decay: float = 0.0,
    betas: tuple[float, ...] = (0.9, 0.999),
    fused: bool | None = None,
) -> Factory:
    """Adam (Kingma & Ba, 2015).

    Args:
        lr: Learning rate.
        weight_decay: Strength of the penalty on squared weights.
        betas: Decay of the running means of the gradient and of its square.
        fused: One kernel for all parameters; None uses it if PyTorch can.
    """
    return _factory(torch.optim.Adam, lr, weight_decay, fused, betas=_pair(betas))


def adamw(
    lr: float = 1e-3,
    weight_decay: float = 1e-2,
    betas: tuple[float, ...] = (0.9, 0.999),
    fused: bool | None = None,
) -> Factory:
    """Adam with decoupled weight decay (Loshchilov & Hutter, 2019).

    Args:
        lr: Learning rate.
        weight_decay: Factor of the weights that a step subtracts, times the learning rate.
        betas: Decay of the running means of the gradient and of its square.
        fused: One kernel for all parameters; None uses it if PyTorch can.
    """
    return _factory(torch.optim.AdamW, lr, weight_decay, fused, betas=_pair(betas))


def sgd(
    lr: float = 0.1,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    nesterov: bool = False,
    fused: bool | None = None,
) -> Factory:
    """Stochastic gradient descent, with optional momentum.

    Args:
        lr: Learning rate.
        weight_decay: Strength of the penalty on squared weights.
        momentum: Share of the last step that is added again.
        nesterov: Whether the gradient is computed after the momentum's step.
        fused: One kernel for all parameters; None uses it if PyTorch can.
    """
    at_least(momentum, 0, "optimizer.momentum")
    if nesterov and not momentum:
        raise SettingError(
            "optimizer.nesterov=true needs momentum, which is 0: set optimizer.momentum, "
            "for instance to 0.9"
        )
    return _factory(torch.optim.SGD, lr, weight_decay, fused, momentum=momentum, nesterov=nesterov)


def _pair(betas: tuple[float, ...]) -> tuple[float, float]:
    """Check Adam's two decays and return them."""
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise SettingError(
            f"optimizer.betas must be two numbers from 0 to below 1, got {list(betas)}"
        )
    return betas[0], betas[1]


def _factory(
    kind: Callable[..., torch.optim.Optimizer],
    lr: float,
    weight_decay: float,
    fused: bool | None,
    **settings: Any,
) -> Factory:
    at_least(lr, 0, "optimizer.lr")
    at_least(weight_decay, 0, "optimizer.weight_decay")

    def make(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        chosen = list(parameters)
        fuse = _fused(fused, chosen)
        return kind(chosen, lr=lr, weight_decay=weight_decay, fused=fuse, **settings)

    return make


def bare_optimizer(learner: Learner) -> torch.optim.Optimizer:
    """Return the learner's optimizer without Fabric's wrapper."""
    optimizer: Any = learner.optimizer
    assert optimizer is not None
    bare: torch.optim.Optimizer = getattr(optimizer, "optimizer", optimizer)
    return bare


def _fused(setting: bool | None, parameters: list[nn.Parameter]) -> bool | None:
    """Return whether to use the fused step; None lets PyTorch decide."""
    if setting is not None:
        return setting or None
    able = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in parameters)
    return able or None


@hookimpl
def register(registry: Registry) -> None:
    """Register the optimizers."""
    registry.add("optimizer", "adam", adam)
    registry.add("optimizer", "adamw", adamw)
    registry.add("optimizer", "sgd", sgd)
