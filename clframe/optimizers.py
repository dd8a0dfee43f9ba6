"""Optimisers by name, each with PyTorch's own defaults unless said otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import torch
from torch import nn

from clframe.hookspecs import hookimpl
from clframe.settings import at_least

if TYPE_CHECKING:
    from clframe.registry import Registry

Factory = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


def adam(
    lr: float = 1e-3,
    weight_decay: float = 0.0,
    betas: tuple[float, ...] = (0.9, 0.999),
    fused: bool = False,
) -> Factory:
    """Adam (Kingma & Ba, 2015)."""
    _check(lr, weight_decay)
    pair = (betas[0], betas[1])
    return lambda p: torch.optim.Adam(
        p, lr=lr, weight_decay=weight_decay, betas=pair, fused=fused or None
    )


def adamw(
    lr: float = 1e-3,
    weight_decay: float = 1e-2,
    betas: tuple[float, ...] = (0.9, 0.999),
    fused: bool = False,
) -> Factory:
    """Adam with decoupled weight decay (Loshchilov & Hutter, 2019)."""
    _check(lr, weight_decay)
    pair = (betas[0], betas[1])
    return lambda p: torch.optim.AdamW(
        p, lr=lr, weight_decay=weight_decay, betas=pair, fused=fused or None
    )


def sgd(
    lr: float = 0.1,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    nesterov: bool = False,
    fused: bool = False,
) -> Factory:
    """Stochastic gradient descent, with momentum if wanted."""
    _check(lr, weight_decay)
    at_least(momentum, 0, "optimizer.momentum")
    return lambda p: torch.optim.SGD(
        p,
        lr=lr,
        weight_decay=weight_decay,
        momentum=momentum,
        nesterov=nesterov,
        fused=fused or None,
    )


def _check(lr: float, weight_decay: float) -> None:
    at_least(lr, 0, "optimizer.lr")
    at_least(weight_decay, 0, "optimizer.weight_decay")


@hookimpl
def register(registry: Registry) -> None:
    """Add the optimisers."""
    registry.add("optimizer", "adam", adam)
    registry.add("optimizer", "adamw", adamw)
    registry.add("optimizer", "sgd", sgd)
