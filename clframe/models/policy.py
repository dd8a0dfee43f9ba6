"""A policy for imitation learning: a perceptron with a head for actions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch
from torch import Tensor, nn

from clframe.core.protocols import Policy, robot_stream
from clframe.core.stream import Stream
from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.models.actions.acting import Acting
from clframe.models.actions.decoder import ActionDecoder
from clframe.models.actions.head_settings import SQUARED_ERROR, ActionSettings
from clframe.models.classifier import Classifier
from clframe.models.heads import CodedFeatures, TaskHeads
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.registry import Registry

Activation: TypeAlias = Literal["relu", "leaky_relu", "tanh", "elu", "gelu", "silu"]

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": lambda: nn.LeakyReLU(0.2),
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}


@dataclass(frozen=True)
class Body:
    """The configuration of hidden layers: widths, a norm after the first one, the activation."""

    hidden: tuple[int, ...]
    layer_norm: bool
    activation: Activation


class ImageEncoder(nn.Module):
    """Encodes the images at the end of a vector and replaces them with their features.

    Args:
        n_inputs: Length of the vector.
        side: Pixels of an image's side.
        images: Number of images.
        width: Number of features that replace them.
    """

    def __init__(self, n_inputs: int, side: int, images: int, width: int = 64) -> None:
        super().__init__()
        channels = 3 * images
        self.shape = (channels, side, side)
        self.plain = n_inputs - math.prod(self.shape)
        if self.plain < 0 or side < 8:
            raise SettingError(
                f"model.image={side} and model.images={images} need images of at least 8 pixels "
                f"and {math.prod(self.shape)} of the inputs, but there are {n_inputs}"
            )
        # Each convolution halves the sides.
        sizes = (channels, 16, 32, 32)
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(sizes):
            layers += [nn.Conv2d(before, after, 3, 2, 1), nn.ReLU()]
        cells = math.ceil(side / 8) ** 2
        self.see = nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * cells, width), nn.ReLU())
        self.n_outputs = self.plain + width

    def forward(self, x: Tensor) -> Tensor:
        """Return the rest of the vector, followed by the images' features."""
        features = self.see(x[:, self.plain :].reshape(len(x), *self.shape))
        return torch.cat([x[:, : self.plain], features], 1)


class PerceptronPolicy(Policy, Classifier):
    """Features and a linear head, or one head per task.

    Args:
        features: Maps inputs to one vector per sample.
        n_features: The length of that vector.
        n_outputs: Outputs of each head.
        n_tasks: Number of heads; None for one that all tasks share.
    """

    def __init__(
        self, features: nn.Module, n_features: int, n_outputs: int, n_tasks: int | None = None
    ) -> None:
        super().__init__(features, n_features, n_outputs)
        self.n_tasks = n_tasks
        if n_tasks is not None:
            self.features = CodedFeatures(features, n_tasks)
            self.head = TaskHeads(n_features, n_tasks, n_outputs)  # type: ignore[assignment]

    def prepare_stream(self, stream: Stream, device: torch.device) -> Stream:
        """Return the stream; with several heads, inputs end with the task's code."""
        if self.n_tasks is None:
            return stream
        return robot_stream(stream, "model.heads=task").with_task_code()


class ActionPolicy(Acting, PerceptronPolicy):
    """A policy whose outputs a decoder converts to actions.

    Args:
        features: Maps inputs to one vector per sample.
        n_features: The length of that vector.
        decoder: Interprets the outputs.
        n_tasks: Number of heads; None for one that all tasks share.
    """

    def __init__(
        self,
        features: nn.Module,
        n_features: int,
        decoder: ActionDecoder,
        n_tasks: int | None = None,
    ) -> None:
        super().__init__(features, n_features, sum(decoder.sizes), n_tasks)
        self.decoder = decoder

    def prepare_stream(self, stream: Stream, device: torch.device) -> Stream:
        """Return the stream, with chunks of actions as labels if the policy predicts chunks."""
        if self.decoder.chunk > 1:
            chunk = self.decoder.chunk
            stream = robot_stream(stream, f"model.chunk={chunk}").with_chunks(chunk)
        return super().prepare_stream(stream, device)


def policy(
    input_shape: tuple[int, ...],
    n_outputs: int,
    hidden: list[int] | tuple[int, ...] = (256, 256, 256),
    actions: ActionSettings = SQUARED_ERROR,
    layer_norm: bool = False,
    image: int | None = None,
    images: int = 1,
    heads: Literal["shared", "task"] = "shared",
    activation: Activation = "relu",
    stream: Stream | None = None,
) -> PerceptronPolicy:
    """A perceptron that maps a robot's observations to an action.

    Continual World (Wolczyk et al., 2021) uses ``hidden=[256,256,256,256] heads=task
    activation=leaky_relu layer_norm=true``, and only the choice of the head depends on the task
    (``stream.task_input=none``). LIBERO (Liu et al., 2023) has one head for all tasks, a mixture of
    five Gaussians (``head=gmm``), and identifies the task by its instruction.

    Regularisers such as EWC need ``heads=task``: every task uses a shared output layer, so none of
    its weights is free to change for a new task. ``leaky_relu`` keeps the gradient of inactive
    units; without it, the Fisher information treats them as unimportant.

    Args:
        input_shape: Shape of one sample, which is flattened.
        n_outputs: Numbers in an action.
        hidden: Width of each hidden layer.
        actions: The head: how actions are learned and executed.
        layer_norm: Normalise the first hidden layer and apply tanh to it, as in Continual World.
        image: Side in pixels of the images at the end of the inputs; None if there are none.
        images: Number of images: one per camera and observation of the window.
        heads: ``shared``: one output layer. ``task``: one per task of the stream, selected by the
            task's index even if the inputs do not include the task.
        activation: The activation of the hidden layers (except a first one with ``layer_norm``, and
            those for images); ``leaky_relu`` has the slope 0.2 of Continual World.
        stream: Provides the number of tasks for ``heads=task``; must have robot tasks for all heads
            except ``mse``.
    """
    at_least(images, 1, "model.images")
    n_tasks = None if heads == "shared" else len(robot_stream(stream, "model.heads=task").tasks)
    if not actions.plain and stream is not None:
        check_actions(stream, actions)
    layers: list[nn.Module] = [nn.Flatten()]
    width = math.prod(input_shape)
    if image is not None:
        encoder = ImageEncoder(width, image, images)
        layers.append(encoder)
        width = encoder.n_outputs
    layers += hidden_layers(width, hidden, layer_norm, activation)
    features, width = nn.Sequential(*layers), [width, *hidden][-1]
    if actions.plain:
        return PerceptronPolicy(features, width, n_outputs, n_tasks)
    decoder = ActionDecoder(actions, n_outputs, "mode_mean")
    return ActionPolicy(features, width, decoder, n_tasks)


def hidden_layers(
    width: int, hidden: Sequence[int], layer_norm: bool, activation: Activation
) -> list[nn.Module]:
    """Return linear layers after ``width`` inputs, each with its activation; see :func:`policy`."""
    layers: list[nn.Module] = []
    for number, units in enumerate(hidden):
        at_least(units, 1, "model.hidden")
        layers.append(nn.Linear(width, units))
        first = layer_norm and not number
        layers += [nn.LayerNorm(units), nn.Tanh()] if first else [ACTIVATIONS[activation]()]
        width = units
    return layers


def check_actions(stream: Stream, actions: ActionSettings) -> None:
    """Check that a stream's actions are numbers, which these settings need."""
    setting = f"model.chunk={actions.chunk}" if actions.chunk > 1 else f"model.head={actions.head}"
    if robot_stream(stream, setting).discrete:
        raise SettingError(
            f"{setting} needs numeric actions, but those of stream '{stream.name}' are choices; "
            "choose model=categorical, or model=policy with its defaults"
        )


@hookimpl
def register(registry: Registry) -> None:
    """Register the model."""
    registry.add("model", "policy", policy)
