"""The policy for learning by reward: a Gaussian over actions, squashed to -1 ... 1 by tanh.

If actions are choices, the policy is that of :mod:`clframe.models.categorical`.
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
"""Keeps the density of a squashed action finite where tanh saturates."""


class SquashedGaussian(PerceptronPolicy):
    """A Gaussian over actions before tanh; outputs are its means, then its log-deviations.

    Args:
        features: Maps inputs to one vector per sample.
        n_features: The length of that vector.
        n_actions: Numbers in an action.
        body: The configuration of the hidden layers, also used for the critics.
        n_tasks: Number of heads; None for one that all tasks share.
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
        """Return means before tanh and log-deviations."""
        means, log_std = outputs.chunk(2, -1)
        return means, log_std.clamp(*LOG_STD)

    def single_gaussian(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and deviations for the Fisher information.

        They are those before tanh: tanh does not change the Fisher information.
        """
        means, log_std = self.gaussian(outputs)
        return means, log_std.exp()

    def draw(self, outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the actions from standard normal noise, and their log-densities."""
        means, log_std = self.gaussian(outputs)
        action = (means + log_std.exp() * noise).tanh()
        log_density = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        return action, (log_density - (1 - action.square() + EPSILON).log()).sum(-1)

    def sample(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Sample from the Gaussian before tanh; :meth:`act_on` converts samples to actions."""
        means, log_std = self.gaussian(outputs)
        noise = torch.randn(means.shape, generator=generator, device=means.device)
        return means + log_std.exp() * noise

    def act_on(self, drawn: Tensor) -> Tensor:
        """Return the environment's action for a sample."""
        return drawn.tanh()

    def log_prob(self, outputs: Tensor, drawn: Tensor) -> Tensor:
        """Return the log-density of a sample, before tanh.

        tanh changes all densities of an action by the same factor, so ratios of two policies do not
        change.
        """
        means, log_std = self.gaussian(outputs)
        distance = (drawn - means) / log_std.exp()
        return (-0.5 * distance.square() - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)

    def entropy(self, outputs: Tensor) -> Tensor:
        """Return the entropy of the Gaussian before tanh."""
        return (self.gaussian(outputs)[1] + 0.5 * (1 + math.log(2 * math.pi))).sum(-1)

    def law(self, outputs: Tensor) -> Tensor:
        """Return :meth:`action_loss`'s labels: means before tanh, then clamped log-deviations."""
        return torch.cat(self.gaussian(outputs), 1)

    def action_of(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return the mean action, which evaluation uses."""
        return self.gaussian(outputs)[0].tanh()

    def action_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the divergence of another policy's Gaussian from this one, mean over samples.

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
        distance = ((old_means - means) / log_std.exp()).square()
        return (log_std - old_log_std + 0.5 * (ratio + distance - 1)).sum(-1).mean()


def actor(
    input_shape: tuple[int, ...],
    n_outputs: int,
    hidden: list[int] | tuple[int, ...] = (256, 256),
    layer_norm: bool = False,
    heads: Literal["shared", "task"] = "shared",
    activation: Activation = "relu",
    stream: Stream | None = None,
) -> SquashedGaussian | CategoricalPolicy:
    """The policy for learning by reward: a Gaussian that tanh squashes to actions from -1 to 1.

    If the stream's actions are choices, ``model=categorical`` replaces it.

    Args:
        input_shape: Shape of one sample, which is flattened.
        n_outputs: Numbers in an action, or choices.
        hidden: Width of each hidden layer, also of the critics unless the learner sets another.
        layer_norm: Normalise the first hidden layer and apply tanh to it, as in Continual World.
        heads: ``shared``: one output layer. ``task``: one per task of the stream, selected by the
            task's index even if the inputs do not include the task.
        activation: The activation of the hidden layers.
        stream: Provides the number of tasks for ``heads=task``.
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
    """Register the model."""
    registry.add("model", "actor", actor)
