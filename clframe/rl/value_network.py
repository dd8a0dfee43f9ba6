"""The network that estimates the expected return, separate from the actor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from torch import nn

from clframe.models.categorical import CategoricalPolicy
from clframe.models.heads import CodedFeatures, TaskHeads
from clframe.models.policy import hidden_layers
from clframe.rl.actor import SquashedGaussian

Actor: TypeAlias = SquashedGaussian | CategoricalPolicy


def value_network(model: Actor, n_inputs: int, hidden: Sequence[int] | None) -> nn.Module:
    """Return a network with one value per row; layers and heads are like the actor's.

    Args:
        model: The actor.
        n_inputs: Length of its inputs, including the task's code if it has task heads.
        hidden: Width of each hidden layer; None uses the actor's.
    """
    body, n_tasks = model.body, model.n_tasks
    widths = list(body.hidden if hidden is None else hidden)
    n_seen = n_inputs - (n_tasks or 0)
    layers = nn.Sequential(*hidden_layers(n_seen, widths, body.layer_norm, body.activation))
    last = [n_seen, *widths][-1]
    if n_tasks is None:
        return nn.Sequential(nn.Flatten(), layers, nn.Linear(last, 1))
    return nn.Sequential(CodedFeatures(layers, n_tasks), TaskHeads(last, n_tasks, 1))


def renew(network: nn.Module) -> None:
    """Draw new weights for all layers."""
    for module in network.modules():
        reset: Any = getattr(module, "reset_parameters", None)
        if reset is not None:
            reset()
