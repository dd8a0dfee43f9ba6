"""A policy that chooses: a perceptron with one logit for each choice.

If the inputs tell which choices are possible, the logits of the others are the lowest number of
their type, as for all masked outputs: their probability is exactly 0, and cross-entropy, entropy
and divergence stay finite. The mask is appended to the features, so that the features contain all
inputs of the head.
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
    """Features, followed by the mask of possible choices from the inputs.

    Args:
        features: Maps inputs to one vector per sample.
        mask: Position of the mask in the inputs.
    """

    def __init__(self, features: nn.Module, mask: slice) -> None:
        super().__init__()
        self.features, self.mask = features, mask

    def forward(self, x: Tensor) -> Tensor:
        """Return features, then the mask."""
        hidden: Tensor = self.features(x)
        return torch.cat([hidden, x.flatten(1)[:, self.mask].to(hidden.dtype)], 1)


class MaskedLinear(nn.Module):
    """A linear head for features that end with a mask.

    Args:
        n_features: Length of the features without the mask.
        n_outputs: Number of choices.
    """

    def __init__(self, n_features: int, n_outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_features, n_outputs)
        self.n_outputs = n_outputs

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits of possible choices."""
        hidden, mask = features[:, : -self.n_outputs], features[:, -self.n_outputs :]
        return possible(self.linear(hidden), mask)


class MaskedTaskHeads(TaskHeads):
    """A head for each task, for features that end with the task's code and then a mask."""

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits of possible choices, by each sample's own head."""
        coded, mask = features[:, : -self.n_outputs], features[:, -self.n_outputs :]
        return possible(super().forward(coded), mask)


def possible(logits: Tensor, mask: Tensor) -> Tensor:
    """Return the logits, with the lowest number of their type where the mask is 0."""
    return logits.masked_fill(mask < 0.5, torch.finfo(logits.dtype).min)


class CategoricalPolicy(PerceptronPolicy):
    """Outputs one logit for each choice; the policy is their softmax.

    Args:
        features: Maps inputs to one vector per sample.
        n_features: The length of that vector.
        n_choices: Number of choices.
        body: The configuration of the hidden layers, also used for a value network.
        n_tasks: Number of heads; None for one that all tasks share.
        mask: The inputs that are 1 for a possible choice and 0 for another; None if all choices are
            always possible.
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
        """Sample choices by their probabilities."""
        return torch.multinomial(outputs.softmax(-1), 1, generator=generator).squeeze(1)

    def act_on(self, drawn: Tensor) -> Tensor:
        """Return the environment's action for a sample: the choice."""
        return drawn

    def log_prob(self, outputs: Tensor, drawn: Tensor) -> Tensor:
        """Return the log-probability of choices."""
        return outputs.log_softmax(-1).gather(1, drawn[:, None]).squeeze(1)

    def entropy(self, outputs: Tensor) -> Tensor:
        """Return the entropy over possible choices."""
        logs = outputs.log_softmax(-1)
        return -(logs.exp() * logs).sum(-1)

    def law(self, outputs: Tensor) -> Tensor:
        """Return the labels for :meth:`action_loss`: the logits."""
        return outputs

    def action_of(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return the most likely choice, which evaluation uses."""
        return outputs.argmax(-1)

    def action_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of cloning, mean over samples.

        Integer targets are choices, learned by cross-entropy. Others are the logits of another
        policy: ``KL(old || new) = sum_c p_old (log p_old - log p_new)``.
        """
        if targets.is_floating_point():
            if targets.shape != outputs.shape:
                raise SettingError(
                    f"model=categorical clones choices, or policies by their {self.n_choices} "
                    f"logits, but the labels have the shape {tuple(targets.shape[1:])}; choose "
                    "model=policy for numeric actions"
                )
            old, new = targets.log_softmax(-1), outputs.log_softmax(-1)
            # An impossible choice has the probability 0 and a finite log-probability.
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
        input_shape: Shape of one sample, which is flattened.
        n_outputs: Number of choices.
        hidden: Width of each hidden layer.
        layer_norm: Normalise the first hidden layer and apply tanh to it, as in Continual World.
        heads: ``shared``: one output layer. ``task``: one per task of the stream, selected by the
            task's index even if the inputs do not include the task.
        activation: The activation of the hidden layers.
        stream: Its actions must be choices; provides the position of the mask in the inputs and the
            number of tasks.
    """
    n_tasks = None if heads == "shared" else len(robot_stream(stream, "model.heads=task").tasks)
    width = math.prod(input_shape)
    mask = None if stream is None else mask_of(stream, width, n_outputs)
    layers = hidden_layers(width, hidden, layer_norm, activation)
    features = nn.Sequential(nn.Flatten(), *layers)
    body = Body(tuple(hidden), layer_norm, activation)
    return CategoricalPolicy(features, [width, *hidden][-1], n_outputs, body, n_tasks, mask)


def mask_of(stream: Stream, n_inputs: int, n_choices: int) -> slice | None:
    """Return the position of the mask in a stream's inputs; reject a stream without choices."""
    robot = robot_stream(stream, "model=categorical")
    if not robot.discrete:
        raise SettingError(
            f"model=categorical chooses among actions, but those of stream '{stream.name}' are "
            f"{n_choices} numbers; choose model=policy or model=actor"
        )
    if robot.mask is None:
        return None
    positions = range(*robot.mask.indices(n_inputs))
    if len(positions) != n_choices or positions.step != 1:
        raise SettingError(
            f"stream '{stream.name}' has {n_choices} choices, but its mask is {len(positions)} "
            f"of the {n_inputs} inputs; it needs one adjacent number for each choice"
        )
    return slice(positions.start, positions.stop)


@hookimpl
def register(registry: Registry) -> None:
    """Register the model."""
    registry.add("model", "categorical", categorical)
