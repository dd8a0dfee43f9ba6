"""A small convolutional network for CPU-sized image streams."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.models.classifier import Classifier
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.registry import Registry


def cnn(
    input_shape: tuple[int, ...],
    n_outputs: int,
    channels: list[int] | tuple[int, ...] = (32, 64),
    features: int = 128,
    norm: bool | Literal["batch", "group"] = False,
    down: Literal["pool", "stride"] = "pool",
    kernel: int = 3,
) -> Classifier:
    """Blocks of convolution and ReLU that halve the sides, then one hidden layer.

    Args:
        input_shape: Channels, height and width.
        n_outputs: Output units.
        channels: Channels of each block.
        features: Width of the hidden layer.
        norm: Normalization after each convolution: none, ``batch`` (the same as true) or ``group``
            (up to eight groups of channels, without running statistics of past data).
        down: Halve by 2x2 max-pooling after the convolution, or by its ``stride`` of 2, which costs
            a quarter.
        kernel: Side of the convolutions, an odd number.
    """
    if len(input_shape) != 3:
        raise SettingError(f"model 'cnn' needs images (channels, height, width), got {input_shape}")
    if kernel < 1 or kernel % 2 == 0:
        raise SettingError(f"model.kernel must be a positive odd number, got {kernel!r}")
    for count in channels:
        at_least(count, 1, "model.channels")
    at_least(features, 1, "model.features")
    layers: list[nn.Module] = []
    before = input_shape[0]
    stride = 2 if down == "stride" else 1
    for count in channels:
        layers.append(nn.Conv2d(before, count, kernel, stride, padding=kernel // 2, bias=not norm))
        if norm:
            layers.append(
                nn.GroupNorm(math.gcd(8, count), count)
                if norm == "group"
                else nn.BatchNorm2d(count)
            )
        layers.append(nn.ReLU())
        if down == "pool":
            layers.append(nn.MaxPool2d(2))
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
    """Register the model."""
    registry.add("model", "cnn", cnn)
