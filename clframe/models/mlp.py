"""Multilayer perceptron."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from torch import nn

from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.models.classifier import Classifier
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.registry import Registry


def mlp(
    input_shape: tuple[int, ...],
    n_outputs: int,
    hidden: list[int] | tuple[int, ...] = (400, 400),
    dropout: float = 0.0,
    init: Literal["torch", "xavier"] = "torch",
) -> Classifier:
    """Fully connected layers with ReLU (van de Ven & Tolias use two of 400).

    In a layer with ``n`` inputs and ``m`` outputs, initial weights and biases are uniform within
    ``1 / sqrt(n)`` of 0 (``init=torch``), or weights are uniform within ``sqrt(6 / (n + m))`` and
    biases 0 (``init=xavier``: Glorot & Bengio 2010; the networks of GEM's and DER's papers).

    Args:
        input_shape: Shape of one sample, which is flattened.
        n_outputs: Output units.
        hidden: Width of each hidden layer.
        dropout: Probability of dropping a hidden unit.
        init: The distribution of initial weights, as above.
    """
    if not 0 <= dropout < 1:
        raise SettingError(f"model.dropout must be at least 0 and below 1, got {dropout!r}")
    layers: list[nn.Module] = [nn.Flatten()]
    width = math.prod(input_shape)
    for units in hidden:
        at_least(units, 1, "model.hidden")
        layers += [nn.Linear(width, units), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        width = units
    model = Classifier(nn.Sequential(*layers), width, n_outputs)
    if init == "xavier":
        for module in model.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
    return model


@hookimpl
def register(registry: Registry) -> None:
    """Register the model."""
    registry.add("model", "mlp", mlp)
