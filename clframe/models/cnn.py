"""A small convolutional network for CPU-sized image streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.models.classifier import Classifier

if TYPE_CHECKING:
    from clframe.registry import Registry


def cnn(
    input_shape: tuple[int, ...],
    n_outputs: int,
    channels: list[int] | tuple[int, ...] = (32, 64),
    features: int = 128,
    norm: bool = False,
) -> Classifier:
    """Blocks of convolution, ReLU and 2x2 pooling, then one hidden layer.

    Args:
        input_shape: Channels, height and width.
        n_outputs: Output units.
        channels: Of each block.
        features: Width of the hidden layer.
        norm: Batch normalisation after each convolution.
    """
    if len(input_shape) != 3:
        raise SettingError(f"model 'cnn' takes images (channels, height, width), got {input_shape}")
    layers: list[nn.Module] = []
    before = input_shape[0]
    for count in channels:
        layers.append(nn.Conv2d(before, count, 3, padding=1, bias=not norm))
        if norm:
            layers.append(nn.BatchNorm2d(count))
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
        before = count
    body = nn.Sequential(*layers, nn.Flatten())
    if min(input_shape[1:]) < 2 ** len(channels):
        raise SettingError(
            f"model 'cnn' with {len(channels)} blocks needs images of at least "
            f"{2 ** len(channels)} pixels a side, got {input_shape}"
        )
    with torch.no_grad():
        was_training = body.training
        body.eval()
        width = body(torch.zeros(1, *input_shape)).shape[1]
        body.train(was_training)
    body.extend([nn.Linear(width, features), nn.ReLU()])
    return Classifier(body, features, n_outputs)


@hookimpl
def register(registry: Registry) -> None:
    """Add the model."""
    registry.add("model", "cnn", cnn)
