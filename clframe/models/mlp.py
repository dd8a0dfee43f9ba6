"""Multilayer perceptron."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import nn

from clframe.hookspecs import hookimpl
from clframe.models.classifier import Classifier
from clframe.utils.settings import at_least

if TYPE_CHECKING:
    from clframe.core.registry import Registry


def mlp(
    input_shape: tuple[int, ...],
    n_outputs: int,
    hidden: list[int] | tuple[int, ...] = (400, 400),
    dropout: float = 0.0,
) -> Classifier:
    """Fully connected layers with ReLU (van de Ven & Tolias use two of 400).

    Args:
        input_shape: Of one sample; flattened.
        n_outputs: Output units.
        hidden: Width of each hidden layer.
        dropout: Probability of dropping a hidden unit.
    """
    layers: list[nn.Module] = [nn.Flatten()]
    width = math.prod(input_shape)
    for units in hidden:
        at_least(units, 1, "model.hidden")
        layers += [nn.Linear(width, units), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        width = units
    return Classifier(nn.Sequential(*layers), width, n_outputs)


@hookimpl
def register(registry: Registry) -> None:
    """Add the model."""
    registry.add("model", "mlp", mlp)
