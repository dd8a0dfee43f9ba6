"""A policy that chooses: a perceptron with one logit for each choice.

Where the inputs say which choices are possible, the others hold the lowest number of their type, as
outputs that do not compete do everywhere: their probability is exactly 0, and cross-entropy,
entropy and divergence stay finite. The mask travels behind the features, so that whoever has these
has all that the head needs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.core.protocols import robot_stream
from clframe.core.stream import Stream
from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.models.heads import TaskHeads
from clframe.models.policy import Activation, Body, PerceptronPolicy, hidden_layers

if TYPE_CHECKING:
    from clframe.core.registry import Registry


class MaskedFeatures(nn.Module):
    """Features, followed by the numbers of the inputs that say what is possible.

    Args:
        features: Maps inputs to one vector per sample.
        mask: Which numbers these are.
    """

    def __init__(self, features: nn.Module, mask: slice) -> None:
        super().__init__()
        self.features, self.mask = features, mask

    def forward(self, x: Tensor) -> Tensor:
        """Features, then the mask."""
        hidden: Tensor = self.features(x)
        return torch.cat([hidden, x.flatten(1)[:, self.mask].to(hidden.dtype)], 1)


class MaskedLinear(nn.Module):
    """A linear head for features that end with a mask.

    Args:
        n_features: Length of the features without the mask.
        n_outputs: Choices.
    """

    def __init__(self, n_features: int, n_outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_features, n_outputs)
        self.n_outputs = n_outputs

    def forward(self, features: Tensor) -> Tensor:
        """Logits of what is possible."""
        hidden, mask = features[:, : -self.n_outputs], features[:, -self.n_outputs :]
        return possible(self.linear(hidden), mask)


class MaskedTaskHeads(TaskHeads):
    """A head for each task, for features that end with the task's code and then a mask."""

    def forward(self, features: Tensor) -> Tensor:
        """Logits of what is possible, by each sample's own head."""
        coded, mask = features[:, : -self.n_outputs], features[:, -self.n_outputs :]
        return possible(super().forward(coded), mask)


def possible(logits: Tensor, mask: Tensor) -> Tensor:
    """The logits, with the lowest number of their type where the mask is 0."""
    return logits.masked_fill(mask < 0.5, torch.finfo(logits.dtype).min)


class CategoricalPolicy(PerceptronPolicy):
    """Outputs one logit for each choice; the policy is their softmax.

    Args:
        features: Maps inputs to one vector per sample.
        n_features: The length of that vector.
        n_choices: How many there are.
        body: How the hidden layers are made; a value network's are made so, too.
        n_tasks: How many heads; None for one that all tasks share.
        mask: Which numbers of the inputs are 1 for a possible choice and 0 for another; None where
            all are always possible.
    """

    categorical = True
    clones_outputs = True

    def __init__(
        self,
        features: nn.Module,
        n_features: int,
        n_choices: int,
        body: Body,
        n_tasks: int | None = None,
        mask: slice | None = None,
    ) -> None:
        super().__init__(features, n_features, n_choices, n_tasks)
        self.n_choices = n_choices
        self.body = body
        if mask is not None:
            self.features = MaskedFeatures(self.features, mask)
            head: Any = (
                MaskedLinear(n_features, n_choices)
                if n_tasks is None
                else MaskedTaskHeads(n_features, n_tasks, n_choices)
            )
            self.head = head

    def sample(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Choices, drawn with their probabilities."""
        return torch.multinomial(outputs.softmax(-1), 1, generator=generator).squeeze(1)

    def act_on(self, drawn: Tensor) -> Tensor:
        """What an environment is given for what was drawn: the choice."""
        return drawn

    def log_prob(self, outputs: Tensor, drawn: Tensor) -> Tensor:
        """The log-probability of choices."""
        return outputs.log_softmax(-1).gather(1, drawn[:, None]).squeeze(1)

    def entropy(self, outputs: Tensor) -> Tensor:
        """Of the choice among what is possible."""
        logs = outputs.log_softmax(-1)
        return -(logs.exp() * logs).sum(-1)

    def law(self, outputs: Tensor) -> Tensor:
        """What :meth:`action_loss` clones: the logits."""
        return outputs

    def action_of(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """The most likely choice: how a policy is measured."""
        return outputs.argmax(-1)

    def action_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Cloning, mean over samples.

        Targets that are whole numbers are choices, learned by cross-entropy. Others are the logits
        of another policy: ``KL(old || new) = sum_c p_old (log p_old - log p_new)``.
        """
        if targets.is_floating_point():
            if targets.shape != outputs.shape:
                raise SettingError(
                    f"model=categorical clones choices, or policies by their {self.n_choices} "
                    f"logits, but the labels are of shape {tuple(targets.shape[1:])}: choose "
                    "model=policy for actions that are numbers"
                )
            old, new = targets.log_softmax(-1), outputs.log_softmax(-1)
            # What was impossible has the probability 0, and a log-probability that is finite.
            return (old.exp() * (old - new)).sum(-1).mean()
        return functional.cross_entropy(outputs, targets)


def categorical(
    input_shape: tuple[int, ...],
    n_outputs: int,
    hidden: list[int] | tuple[int, ...] = (256, 256),
    layer_norm: bool = False,
    heads: Literal["shared", "task"] = "shared",
    activation: Activation = "relu",
    stream: Stream | None = None,
) -> CategoricalPolicy:
    """A perceptron that chooses one of several actions, among those that are possible.

    Args:
        input_shape: Of one sample; flattened.
        n_outputs: Choices.
        hidden: Width of each hidden layer.
        layer_norm: Normalise the first hidden layer and squash it by tanh, as in Continual World.
        heads: ``shared``: one output layer. ``task``: one for each task of the stream, chosen by
            the task's index, whether or not the inputs tell the task.
        activation: Of the hidden layers.
        stream: Says that actions are choices, which numbers of the inputs are the mask, and how
            many tasks there are.
    """
    n_tasks = None if heads == "shared" else len(robot_stream(stream, "model.heads=task").tasks)
    width = math.prod(input_shape)
    mask = None if stream is None else mask_of(stream, width, n_outputs)
    layers = hidden_layers(width, hidden, layer_norm, activation)
    features = nn.Sequential(nn.Flatten(), *layers)
    body = Body(tuple(hidden), layer_norm, activation)
    return CategoricalPolicy(features, [width, *hidden][-1], n_outputs, body, n_tasks, mask)


def mask_of(stream: Stream, n_inputs: int, n_choices: int) -> slice | None:
    """Where a stream's inputs say which choices are possible; refuses one that has no choices."""
    robot = robot_stream(stream, "model=categorical")
    if not robot.discrete:
        raise SettingError(
            f"model=categorical chooses among actions, but those of stream '{stream.name}' are "
            f"{n_choices} numbers: choose model=policy or model=actor"
        )
    if robot.mask is None:
        return None
    places = range(*robot.mask.indices(n_inputs))
    if len(places) != n_choices or places.step != 1:
        raise SettingError(
            f"stream '{stream.name}' has {n_choices} choices, but its mask is {len(places)} of the "
            f"{n_inputs} inputs: it needs one number for each choice, side by side"
        )
    return slice(places.start, places.stop)


@hookimpl
def register(registry: Registry) -> None:
    """Add the model."""
    registry.add("model", "categorical", categorical)
