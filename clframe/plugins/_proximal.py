"""A quadratic penalty as an implicit step after the optimizer's own, which cannot overshoot.

Let the optimizer move a parameter by ``-eta m`` on the rest of the loss, where ``m`` is (a running
mean of) the gradient and ``eta`` the step size that the optimizer has for that parameter, and let
the penalty be ``s/2 (theta - a)^2``. As a term of the loss it is an explicit step: it multiplies
the distance to the anchor by ``1 - eta s``, which passes the anchor where ``eta s > 1`` and
diverges where it is above 2. Adam bounds a step by its learning rate, so with Adam the parameter
swings about its anchor by that much, however close it was, and the penalty's gradient fills the
second moment by which the task's own gradient is divided. The implicit step is the minimum of the
penalty and of the distance from the point t that the optimizer went to::

    argmin_theta 1/(2 eta) (theta - t)^2 + s/2 (theta - a)^2 = t + w (a - t)
    w = eta s / (1 + eta s)

As ``0 <= w < 1`` it comes closer to the anchor for every ``s`` and never passes it. At a fixed
point ``theta = t + w (a - t)`` with ``t = theta - eta m`` gives ``m + s (theta - a) = 0``: the
stationary points are those of the loss with its penalty. That holds only if ``eta`` is the step
size the optimizer really took, so it is read from the optimizer: ``lr / (1 - momentum)`` for SGD
(``m`` adds up to ``1 / (1 - momentum)`` of the gradient), ``lr / (sqrt(v) + eps)`` for Adam and
AdamW with ``v`` the second moment, its bias corrected, of the gradient without the penalty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from clframe.errors import PluginError


@torch.no_grad()
def proximal_step(
    optimizer: torch.optim.Optimizer,
    parameters: Sequence[nn.Parameter],
    strength: Sequence[Tensor],
    anchor: Sequence[Tensor],
) -> None:
    """Move parameters towards their anchors, in place, after the optimizer's step.

    Args:
        optimizer: Has just taken a step on the loss without the penalty.
        parameters: The regularized parameters.
        strength: The penalty's curvature ``s`` for each, not negative.
        anchor: Their anchors.
    """
    # Fabric wraps the optimizer.
    bare: torch.optim.Optimizer = getattr(optimizer, "optimizer", optimizer)
    groups = {p: group for group in bare.param_groups for p in group["params"]}
    for p, s, a in zip(parameters, strength, anchor, strict=True):
        divisor = _divisor(bare, groups[p], p) if p in groups else None
        if divisor is not None:
            pull = s * groups[p]["lr"]
            p.lerp_(a, pull / (pull + divisor))


def check_optimizer(optimizer: torch.optim.Optimizer | None, name: str) -> None:
    """Raise an error for an optimizer whose step sizes are not known."""
    bare: Any = getattr(optimizer, "optimizer", optimizer)
    plain = isinstance(bare, torch.optim.SGD | torch.optim.Adam | torch.optim.AdamW)
    if not plain or any(g.get("amsgrad") or g.get("dampening") for g in bare.param_groups):
        raise PluginError(
            f"{name}.step=proximal needs the optimizer's step sizes, which are known for sgd, adam "
            f"and adamw without amsgrad or dampening: set {name}.step=gradient"
        )


def _divisor(
    optimizer: torch.optim.Optimizer, group: dict[str, Any], p: nn.Parameter
) -> Tensor | float | None:
    """Return the divisor of the learning rate for each step size; None before a first step."""
    if isinstance(optimizer, torch.optim.SGD):
        return 1.0 - float(group["momentum"])
    state = optimizer.state.get(p)
    if not state:
        return None
    correction = 1.0 - group["betas"][1] ** state["step"]
    divisor: Tensor = (state["exp_avg_sq"] / correction).sqrt_().add_(group["eps"])
    return divisor
