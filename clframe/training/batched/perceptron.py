"""Perceptrons of several seeds as batched matrix products.

``torch.func.vmap`` gives the same numbers for any model, but its overhead is larger than a small
perceptron's whole pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from clframe.core.protocols import features_of, head_of

Pass: TypeAlias = "Callable[[dict[str, Tensor], Any], tuple[Tensor, ...]]"
"""Maps parameters and inputs, seeds first, to outputs and features."""

_BY_ELEMENT = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.ELU, nn.SiLU, nn.Identity)


def batched_pass(model: nn.Module) -> Pass | None:
    """Return a pass of all seeds for a chain of linear layers with a linear head, else None."""
    features, head = features_of(model), head_of(model)
    if type(features) is not nn.Sequential or type(head) is not nn.Linear:
        return None
    if any(_hooked(module) for module in model.modules()):
        return None
    layers: list[str | Callable[[Tensor], Tensor]] = []
    for name, module in features.named_children():
        # A subclass may compute something else, so only the classes themselves count.
        if type(module) is nn.Linear:
            layers.append(f"features.{name}")
        elif type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1):
            layers.append(_flatten)
        elif type(module) in _BY_ELEMENT:
            layers.append(module)
        else:
            return None
    names = [*(layer for layer in layers if isinstance(layer, str)), "head"]
    expected = {f"{name}.{key}" for name in names for key in ("weight", "bias")}
    # Reject models with other parameters besides these layers, or with a missing bias.
    if expected != set(model.state_dict()):
        return None

    def forward(parameters: dict[str, Tensor], x: Any) -> tuple[Tensor, ...]:
        for layer in layers:
            x = _linear(parameters, layer, x) if isinstance(layer, str) else layer(x)
        return _linear(parameters, "head", x), x

    return forward


def _flatten(x: Tensor) -> Tensor:
    return x.flatten(2)


def _linear(parameters: dict[str, Tensor], layer: str, x: Tensor) -> Tensor:
    """Return ``x W^T + b`` for every seed."""
    weight, bias = parameters[f"{layer}.weight"], parameters[f"{layer}.bias"]
    return torch.baddbmm(bias.unsqueeze(1), x, weight.mT)


def _hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)
