"""The three policies of LIBERO: ResNet-RNN, ResNet-T and ViT-T.

Liu et al., LIBERO: Benchmarking knowledge transfer for lifelong robot learning, 2023, section 4.2
and appendix A. Each reads the images of all cameras, the parts of the robot's state and the
instruction over a window of steps, and outputs a mixture of Gaussians over actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from torch import nn

from clframe.core.protocols import RobotStream
from clframe.core.stream import Stream
from clframe.data.observations import ObservationLayout
from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.models.actions.decoder import ActionDecoder
from clframe.models.actions.head_settings import MIXTURE, ActionSettings
from clframe.models.libero.augment import Augment
from clframe.models.libero.film_resnet import FiLMResNetEncoder, Stem
from clframe.models.libero.frozen_reader import WEIGHTS, FeatureReader, FrozenEncoder
from clframe.models.libero.head import PerceptronHead
from clframe.models.libero.observation_encoder import ConcatEncoder, Reader, States, TokenEncoder
from clframe.models.libero.policy import Body, SequencePolicy
from clframe.models.libero.temporal import Readout, TemporalLSTM, TemporalTransformer
from clframe.models.libero.transformer import Transformer
from clframe.models.libero.vit import PATCH, ViTEncoder
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.registry import Registry

PolicyName: TypeAlias = Literal["resnet_rnn", "resnet_t", "vit_t"]


@dataclass(frozen=True)
class Size:
    """Widths and depths of all parts.

    Args:
        channels: Channels of the ResNet's first stage, and of the convolution before patches.
        points: Maps of the spatial softmax.
        token: Width of the vector of an image, a part of the state or the instruction.
        text: Numbers that represent the instruction in ResNet-RNN.
        recurrent: Width of each of the LSTM's two layers.
        temporal: Layers, heads, head size and perceptron of the transformer over time.
        patch: Width of a patch's vector.
        spatial: The same for the transformer over patches.
        head: Width of the head's layers.
    """

    channels: int
    points: int
    token: int
    text: int
    recurrent: int
    temporal: tuple[int, int, int, int]
    patch: int
    spatial: tuple[int, int, int, int]
    head: int


SIZES: dict[str, Size] = {
    "paper": Size(64, 32, 64, 32, 1024, (4, 6, 64, 256), 128, (7, 8, 120, 256), 1024),
    # For a CPU and images of 64 pixels: a fortieth of the operations.
    "small": Size(16, 32, 64, 32, 256, (2, 4, 16, 128), 64, (2, 4, 16, 128), 256),
}


def libero_policy(
    name: PolicyName,
    stream: Stream,
    n_outputs: int,
    size: Literal["paper", "small"] = "paper",
    window: int = 10,
    actions: ActionSettings = MIXTURE,
    color: float = 0.3,
    shift: int = 4,
    encoder: Literal["trained", "frozen"] = "trained",
    views: int = 4,
    stem: Stem = "resnet",
    feature_dropout: float | None = None,
    state_noise: float = 0.0,
    readout: Readout | None = None,
    weights: str | None = None,
    data_dir: Path | None = None,
) -> SequencePolicy:
    """One of LIBERO's policies, for a stream's cameras, state and instructions.

    Args:
        name: ``resnet_rnn``, ``resnet_t`` or ``vit_t``.
        stream: A stream of a robot that sees images.
        n_outputs: Numbers in an action.
        size: ``paper``, or ``small`` for training on a CPU.
        window: Steps of a sequence in training; also the steps that transformers look back over
            while acting. (ResNet-RNN remembers the whole episode.)
        actions: The head: how actions are learned and executed.
        color: How far colors of training images change; 0 does not change them.
        shift: Largest shift of training images in pixels; 0 does not shift them.
        encoder: ``trained`` with the policy, or ``frozen``: a small network trained to locate
            objects on the table. Each frame is then encoded once, and a training step is many times
            faster (resnet_rnn and resnet_t, images of 64 pixels).
        views: Views of each frame for a frozen encoder: the original, then augmented ones.
        stem: The first layers of the ResNets: ``resnet`` for the usual ones, or ``patch``, which is
            faster.
        feature_dropout: Dropout of a frozen encoder's features in training; None for 0.3.
        state_noise: Deviation of noise on the robot's normalized state in training.
        readout: Tokens of a step that the transformers' head reads: the ``first``, as in LIBERO
            (None), or ``all`` of them, including the parts of the robot's state.
        weights: The frozen encoder's file; None is the shipped one.
        data_dir: The data folder; its folder ``features`` caches features.
    """
    at_least(window, 1, "model.window")
    at_least(color, 0, "model.color")
    at_least(shift, 0, "model.shift")
    at_least(state_noise, 0, "model.state_noise")
    layout = _layout(name, stream)
    sizes = SIZES[size]
    cameras, states = len(layout.images), list(layout.states.values())
    n_condition = max(1, layout.task)  # a constant if nothing identifies the task
    image_encoder: nn.Module
    if name == "vit_t":
        if stem != "resnet":
            raise SettingError("model.stem is for ResNets, resnet_rnn and resnet_t")
        n_vectors = 1  # of all cameras together
        over_patches = Transformer(sizes.patch, *sizes.spatial)
        image_encoder = ViTEncoder(
            cameras,
            layout.side,
            n_condition,
            sizes.patch,
            sizes.channels,
            over_patches,
            sizes.token,
        )
    else:
        n_vectors = cameras
        image_encoder = FiLMResNetEncoder(
            cameras, n_condition, sizes.channels, sizes.points, sizes.token, stem
        )
    at_least(views, 1, "model.views")
    augment = Augment(color, shift)
    reader: nn.Module
    read_states = States(layout, state_noise)
    if encoder == "frozen":
        frozen = _frozen_encoder(name, augment, views, weights, data_dir)
        dropout = _share(0.3 if feature_dropout is None else feature_dropout)
        reader = FeatureReader(
            read_states, frozen, dropout, n_condition, 2 * sizes.token, sizes.token
        )
    elif feature_dropout is not None:
        raise SettingError("model.feature_dropout is for the features of model.encoder=frozen")
    else:
        reader = Reader(read_states, image_encoder, augment)
    if name == "resnet_rnn":
        if readout is not None:
            raise SettingError("model.readout is for transformers, resnet_t and vit_t")
        numbers = n_vectors * sizes.token + sum(states) + sizes.text
        body = Body(
            ConcatEncoder(reader, n_condition, sizes.text),
            TemporalLSTM(numbers, sizes.recurrent, 2),
        )
        n_hidden = sizes.recurrent
    else:
        body = Body(
            TokenEncoder(reader, n_condition, states, sizes.token),
            TemporalTransformer(Transformer(sizes.token, *sizes.temporal), readout or "first"),
        )
        n_tokens = 1 + len(states) + n_vectors if readout == "all" else 1
        n_hidden = n_tokens * sizes.token
    decoder = ActionDecoder(actions, n_outputs, "draw")
    head = PerceptronHead(n_hidden, sizes.head, decoder.sizes)
    return SequencePolicy(body, head, window, decoder)


def _frozen_encoder(
    name: PolicyName, augment: Augment, views: int, weights: str | None, data_dir: Path | None
) -> FrozenEncoder:
    if name == "vit_t":
        raise SettingError(
            "model 'vit_t' cannot use a frozen encoder, which has no patches; choose resnet_t"
        )
    folder = None if data_dir is None else Path(data_dir) / "features" / "keypoints"
    return FrozenEncoder(Path(weights) if weights else WEIGHTS, views, augment, folder)


def _share(dropout: float) -> float:
    if not 0 <= dropout < 1:
        raise SettingError(f"model.feature_dropout must be from 0 to below 1, got {dropout}")
    return dropout


def _layout(name: str, stream: Stream) -> ObservationLayout:
    """Return the layout of the stream's sequences, if the policy can read it."""
    if not isinstance(stream, RobotStream):
        raise SettingError(
            f"model '{name}' needs robot observations, which stream '{stream.name}' does not "
            "provide; choose a robot stream such as tabletop_goal"
        )
    layout = stream.layout
    if not layout.images:
        raise SettingError(
            f"model '{name}' needs images, but stream '{stream.name}' is set to provide none; set "
            "its cameras (stream.cameras=[agentview,wrist], or stream.camera=corner for "
            "Meta-World), or choose model=policy"
        )
    if layout.side < PATCH or (name == "vit_t" and layout.side % PATCH):
        in_steps = f", in steps of {PATCH}" if name == "vit_t" else ""
        raise SettingError(
            f"model '{name}' needs images of at least {PATCH} pixels a side{in_steps}; "
            f"stream.size is {layout.side}"
        )
    return layout


SUMMARIES: dict[PolicyName, str] = {
    "resnet_rnn": "LIBERO's ResNet-RNN: modulated ResNets, a recurrent network, Gaussian mixture",
    "resnet_t": "LIBERO's ResNet-T: modulated ResNets, a transformer over time, Gaussian mixture",
    "vit_t": "LIBERO's ViT-T: a transformer over patches, one over time, Gaussian mixture",
}


@hookimpl
def register(registry: Registry) -> None:
    """Register the models."""
    for name, summary in SUMMARIES.items():
        registry.add("model", name, partial(libero_policy, name), summary)
