"""The policy of learning by reward: a Gaussian over actions that tanh squashes to -1 ... 1.

Where actions are choices, it is :mod:`clframe.models.categorical`'s.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from clframe.core.protocols import RobotStream, robot_stream
from clframe.core.stream import Stream
from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.models.categorical import CategoricalPolicy, categorical
from clframe.models.policy import Activation, Body, PerceptronPolicy, hidden_layers

if TYPE_CHECKING:
    from clframe.core.registry import Registry

LOG_STD = (-20.0, 2.0)
"""Bounds of the logarithm of the actor's deviations."""
EPSILON = 1e-6
"""Keeps the density of a squashed action finite where tanh is flat."""


class SquashedGaussian(PerceptronPolicy):
    """A Gaussian over actions before tanh; outputs are its means, then its log-deviations.

    Args:
        features: Maps inputs to one vector per sample.
        n_features: The length of that vector.
        n_actions: Numbers of an action.
        body: How the hidden layers are made; the critics' are made so, too.
        n_tasks: How many heads; None for one that all tasks share.
    """

    clones_outputs = True

    def __init__(
        self,
        features: nn.Module,
        n_features: int,
        n_actions: int,
        body: Body,
        n_tasks: int | None = None,
    ) -> None:
        super().__init__(features, n_features, 2 * n_actions, n_tasks)
        self.n_actions = n_actions
        self.body = body

    def gaussian(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Means before tanh and log-deviations."""
        means, log_std = outputs.chunk(2, -1)
        return means, log_std.clamp(*LOG_STD)

    def single_gaussian(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Means and deviations, for the Fisher information.

        Of the action before tanh: the Fisher information is the same for one after it.
        """
        means, log_std = self.gaussian(outputs)
        return means, log_std.exp()

    def draw(self, outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The actions that standard normal noise makes of outputs, and their log-densities."""
        means, log_std = self.gaussian(outputs)
        action = (means + log_std.exp() * noise).tanh()
        log_density = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        return action, (log_density - (1 - action.square() + EPSILON).log()).sum(-1)

    def sample(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Actions before tanh, drawn from the Gaussian; :meth:`act_on` makes them actions."""
        means, log_std = self.gaussian(outputs)
        noise = torch.randn(means.shape, generator=generator, device=means.device)
        return means + log_std.exp() * noise

    def act_on(self, drawn: Tensor) -> Tensor:
        """What an environment is given for what was drawn."""
        return drawn.tanh()

    def log_prob(self, outputs: Tensor, drawn: Tensor) -> Tensor:
        """The log-density of what was drawn, before tanh.

        After it, all densities of an action change by one and the same factor, so that ratios of
        two policies are those before it.
        """
        means, log_std = self.gaussian(outputs)
        apart = (drawn - means) / log_std.exp()
        return (-0.5 * apart.square() - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)

    def entropy(self, outputs: Tensor) -> Tensor:
        """Of the Gaussian before tanh."""
        return (self.gaussian(outputs)[1] + 0.5 * (1 + math.log(2 * math.pi))).sum(-1)

    def law(self, outputs: Tensor) -> Tensor:
        """What :meth:`action_loss` clones: means before tanh, then log-deviations in bounds."""
        return torch.cat(self.gaussian(outputs), 1)

    def action_of(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """The action in the middle: how a policy is measured."""
        return self.gaussian(outputs)[0].tanh()

    def action_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Cloning: the divergence of another policy's Gaussian from this one, mean over samples.

        ``KL(old || new) = log(s / s_old) + (s_old^2 + (m_old - m)^2) / (2 s^2) - 1/2``, sum over
        the numbers of an action.
        """
        if targets.shape[-1] != 2 * self.n_actions:
            raise SettingError(
                "model=actor clones policies, whose labels are means and deviations; for "
                "demonstrations (learner=imitation) choose model=policy"
            )
        means, log_std = self.gaussian(outputs)
        old_means, old_log_std = self.gaussian(targets)
        ratio = (2 * (old_log_std - log_std)).exp()
        apart = ((old_means - means) / log_std.exp()).square()
        return (log_std - old_log_std + 0.5 * (ratio + apart - 1)).sum(-1).mean()


def actor(
    input_shape: tuple[int, ...],
    n_outputs: int,
    hidden: list[int] | tuple[int, ...] = (256, 256),
    layer_norm: bool = False,
    heads: Literal["shared", "task"] = "shared",
    activation: Activation = "relu",
    stream: Stream | None = None,
) -> SquashedGaussian | CategoricalPolicy:
    """The policy of learning by reward: a Gaussian that tanh squashes to actions from -1 to 1.

    Where the stream's actions are choices, ``model=categorical`` takes its place.

    Args:
        input_shape: Of one sample; flattened.
        n_outputs: Numbers of an action, or choices.
        hidden: Width of each hidden layer, of the critics as well unless the learner says else.
        layer_norm: Normalise the first hidden layer and squash it by tanh, as in Continual World.
        heads: ``shared``: one output layer. ``task``: one for each task of the stream, chosen by
            the task's index, whether or not the inputs tell the task.
        activation: Of the hidden layers.
        stream: Gives the number of tasks to ``heads=task``.
    """
    if isinstance(stream, RobotStream) and stream.discrete:
        return categorical(input_shape, n_outputs, hidden, layer_norm, heads, activation, stream)
    n_tasks = None if heads == "shared" else len(robot_stream(stream, "model.heads=task").tasks)
    if stream is not None:
        robot_stream(stream, "model=actor")
    width = math.prod(input_shape)
    layers = hidden_layers(width, hidden, layer_norm, activation)
    body = Body(tuple(hidden), layer_norm, activation)
    features = nn.Sequential(nn.Flatten(), *layers)
    return SquashedGaussian(features, [width, *hidden][-1], n_outputs, body, n_tasks)


@hookimpl
def register(registry: Registry) -> None:
    """Add the model."""
    registry.add("model", "actor", actor)
