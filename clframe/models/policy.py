"""A policy for learning by imitation: a perceptron with a head for actions."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.models.classifier import Classifier
from clframe.models.mixture import ActionMixture
from clframe.utils.settings import at_least

if TYPE_CHECKING:
    from clframe.core.registry import Registry


class ImageEncoder(nn.Module):
    """Looks at the pictures at the end of a vector and puts what it sees in their place.

    Args:
        n_inputs: Length of the vector.
        side: Pixels of a picture's side.
        pictures: How many there are.
        width: Numbers that stand for them afterwards.
    """

    def __init__(self, n_inputs: int, side: int, pictures: int, width: int = 64) -> None:
        super().__init__()
        channels = 3 * pictures
        self.shape = (channels, side, side)
        self.plain = n_inputs - math.prod(self.shape)
        if self.plain < 0 or side < 8:
            raise SettingError(
                f"model.picture={side} and model.pictures={pictures} need pictures of at least 8 "
                f"pixels, and {math.prod(self.shape)} of the inputs, of which there are {n_inputs}"
            )
        # Each halves the sides.
        sizes = (channels, 16, 32, 32)
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(sizes):
            layers += [nn.Conv2d(before, after, 3, 2, 1), nn.ReLU()]
        cells = math.ceil(side / 8) ** 2
        self.see = nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * cells, width), nn.ReLU())
        self.n_outputs = self.plain + width

    def forward(self, x: Tensor) -> Tensor:
        """The rest of the vector, followed by what was seen."""
        seen = self.see(x[:, self.plain :].reshape(len(x), *self.shape))
        return torch.cat([x[:, : self.plain], seen], 1)


class GaussianMixturePolicy(ActionMixture, Classifier):
    """Outputs a mixture of diagonal Gaussians over actions, as the policies of LIBERO do.

    The loss is the negative log-likelihood of the demonstrated action, which falls below zero when
    deviations are small.

    Args:
        features: Maps inputs to one vector per sample.
        n_features: The length of that vector.
        n_actions: Numbers of an action.
        modes: Gaussians of the mixture.
        sample: Draw actions from the mixture instead of taking its most likely mode's mean.
    """

    def __init__(
        self, features: nn.Module, n_features: int, n_actions: int, modes: int, sample: bool
    ) -> None:
        super().__init__(features, n_features, modes * (2 * n_actions + 1))
        self.n_actions, self.modes, self.sample = n_actions, modes, sample


def policy(
    input_shape: tuple[int, ...],
    n_outputs: int,
    hidden: list[int] | tuple[int, ...] = (256, 256, 256),
    head: Literal["mse", "gmm"] = "mse",
    modes: int = 5,
    sample: bool = False,
    layer_norm: bool = False,
    picture: int | None = None,
    pictures: int = 1,
) -> Classifier:
    """A perceptron that maps what a robot sees to an action.

    Args:
        input_shape: Of one sample; flattened.
        n_outputs: Numbers of an action.
        hidden: Width of each hidden layer.
        head: ``mse``: the outputs are the action, learned by the squared error. ``gmm``: a mixture
            of Gaussians, learned by its likelihood.
        modes: Gaussians of the mixture.
        sample: ``gmm``: draw actions instead of taking the most likely mode's mean.
        layer_norm: Normalise the first hidden layer and squash it by tanh, as in Continual World.
        picture: The inputs end with pictures of so many pixels a side; None for none.
        pictures: How many, one for each camera and observation of the window.
    """
    at_least(modes, 1, "model.modes")
    at_least(pictures, 1, "model.pictures")
    layers: list[nn.Module] = [nn.Flatten()]
    width = math.prod(input_shape)
    if picture is not None:
        encoder = ImageEncoder(width, picture, pictures)
        layers.append(encoder)
        width = encoder.n_outputs
    for number, units in enumerate(hidden):
        at_least(units, 1, "model.hidden")
        layers.append(nn.Linear(width, units))
        layers += [nn.LayerNorm(units), nn.Tanh()] if layer_norm and not number else [nn.ReLU()]
        width = units
    features = nn.Sequential(*layers)
    if head == "gmm":
        return GaussianMixturePolicy(features, width, n_outputs, modes, sample)
    return Classifier(features, width, n_outputs)


@hookimpl
def register(registry: Registry) -> None:
    """Add the model."""
    registry.add("model", "policy", policy)
