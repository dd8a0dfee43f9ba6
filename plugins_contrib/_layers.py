"""Hidden layers of a plain network, for methods that treat single units."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from clframe import PluginError
from clframe.core.protocols import features_of, head_of

if TYPE_CHECKING:
    from clframe import Learner

Weighted: TypeAlias = "nn.Linear | nn.Conv2d"

ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid)
# Allowed between two layers with weights; none of them mixes units.
_BETWEEN = (nn.Flatten, nn.Dropout, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.Identity)


class Hidden(NamedTuple):
    """A hidden layer: its units are the outputs of a linear layer or the channels of a convolution.

    Args:
        layer: The layer with the incoming weights, a row for each unit.
        activation: Module that gives the units' outputs.
        between: Modules between the activation and the next layer.
        following: The next layer, or the head after the last one.
    """

    layer: Weighted
    activation: nn.Module
    between: tuple[nn.Module, ...]
    following: Weighted

    @property
    def width(self) -> int:
        """Number of units."""
        return self.layer.weight.shape[0]

    @property
    def outgoing(self) -> Tensor:
        """Outgoing weights as (units of the next layer, units of this one, places)."""
        following = self.following.weight
        return following.detach().view(following.shape[0], self.width, -1)


def hidden_layers(learner: Learner, plugin: str, why: str) -> list[Hidden]:
    """Return the hidden layers of the learner's network, in order.

    Args:
        learner: The learner; its model has a sequence of layers as ``features`` and a linear
            ``head``.
        plugin: Name of the plugin, for the message.
        why: What the plugin does with units, for the message.

    Raises:
        PluginError: The units of the network cannot be separated.
    """
    model = learner.model
    body, head = features_of(model), head_of(model)
    refusal = (
        f"plugin '{plugin}' {why}, so it needs a network that is a plain sequence of linear layers "
        "or convolutions with activations between them and a linear head, such as model=mlp or "
        f"model=cnn without norm; {type(model).__name__}"
    )
    if not isinstance(body, nn.Sequential) or not isinstance(head, nn.Linear):
        raise PluginError(f"{refusal} is none")
    weighted: list[tuple[Weighted, list[nn.Module]]] = []
    for module in [*body, head]:
        if isinstance(module, nn.Linear) or (isinstance(module, nn.Conv2d) and module.groups == 1):
            weighted.append((module, []))
        elif not isinstance(module, (*ACTIVATIONS, *_BETWEEN)):
            raise PluginError(f"{refusal} has a {type(module).__name__}")
        elif weighted:
            weighted[-1][1].append(module)
    layers_found = []
    for (layer, after), (following, _) in itertools.pairwise(weighted):
        active = [module for module in after if isinstance(module, ACTIVATIONS)]
        if len(active) != 1:
            raise PluginError(f"{refusal} has a layer with {len(active)} activations")
        # Modules before the activation commute with it, or the network is rejected.
        between = tuple(module for module in after if module is not active[0])
        layers_found.append(Hidden(layer, active[0], between, following))
    if not layers_found:
        raise PluginError(f"{refusal} has no hidden layer")
    return layers_found


def draw_like(values: Tensor, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Return values of this shape drawn from given ones, with their distribution."""
    flat = values.flatten()
    device = generator.device
    chosen = torch.randint(flat.numel(), shape, generator=generator, device=device)
    return flat[chosen.to(flat.device)]
