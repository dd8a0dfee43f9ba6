"""VGG-16 with batch normalization as in OpenLORIS-Object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.models.classifier import Classifier
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.registry import Registry

BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Configuration D of Simonyan & Zisserman (2015): thirteen convolutions in five blocks."""


def vgg(
    input_shape: tuple[int, ...],
    n_outputs: int,
    hidden: list[int] | tuple[int, ...] = (4096, 4096),
    dropout: float = 0.5,
) -> Classifier:
    """VGG-16 with batch normalization, from scratch (She et al., OpenLORIS-Object, 2020).

    Five blocks of 3x3 convolutions with batch normalization and ReLU, each followed by 2x2
    max-pooling; then 512 -> 4096 -> 4096 -> outputs with dropout. At 32x32 (and up to 63x63,
    including the paper's 50x50) the last block leaves one pixel; larger maps are averaged to one,
    so the size of the network does not depend on the size of the images.

    Args:
        input_shape: Channels, height and width; at least 32 pixels a side.
        n_outputs: Output units.
        hidden: Widths of the fully connected layers.
        dropout: Dropout probability of their units.
    """
    if len(input_shape) != 3 or min(input_shape[1:]) < 2 ** len(BLOCKS):
        raise SettingError(
            "model 'vgg' needs images (channels, height, width) of at least 32 pixels a side, "
            f"got {tuple(input_shape)}"
        )
    if not 0 <= dropout < 1:
        raise SettingError(f"model.dropout must be at least 0 and below 1, got {dropout!r}")
    layers: list[nn.Module] = []
    before = input_shape[0]
    for block in BLOCKS:
        for count in block:
            # The original has this bias; batch normalization makes it redundant, not wrong.
            layers += [nn.Conv2d(before, count, 3, padding=1), nn.BatchNorm2d(count), nn.ReLU()]
            before = count
        layers.append(nn.MaxPool2d(2))
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    for units in hidden:
        at_least(units, 1, "model.hidden")
        layers += [nn.Linear(before, units), nn.ReLU(), nn.Dropout(dropout)]
        before = units
    return Classifier(nn.Sequential(*layers), before, n_outputs)


@hookimpl
def register(registry: Registry) -> None:
    """Register the model."""
    registry.add("model", "vgg", vgg)
