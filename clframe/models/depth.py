"""Adapt a network for color images to depth as a fourth channel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from clframe.errors import SettingError

COLORS = 3


class Normalize(nn.Module):
    """Normalizes channels in 0..1 as the pretrained weights expect.

    Channels that are not colors (depth) get the mean over the colors.

    Args:
        channels: Number of input channels.
        mean: The mean of each color.
        std: The deviation of each color.
    """

    def __init__(self, channels: int, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        for name, values in (("mean", mean), ("std", std)):
            common = sum(values) / len(values)
            colors = list(values) if channels >= COLORS else []
            full = colors + [common] * (channels - len(colors))
            self.register_buffer(name, torch.tensor(full).view(1, -1, 1, 1), persistent=False)
        self.mean: Tensor
        self.std: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalized inputs."""
        return (x - self.mean) / self.std


class DepthStem(nn.Module):
    """A first layer for color plus a separate one for depth; their outputs are added.

    The depth branch (convolution, batch normalization, ReLU) ends in a scale per channel that
    starts at zero: before training, the network equals the color network.

    Args:
        color: The first convolution of a network for three channels.
    """

    def __init__(self, color: nn.Conv2d) -> None:
        super().__init__()
        self.color = color
        # The same class and settings, so that the output size is equal (also with TF's padding).
        self.depth = type(color)(
            1,
            color.out_channels,
            color.kernel_size,  # type: ignore[arg-type]
            color.stride,  # type: ignore[arg-type]
            color.padding,  # type: ignore[arg-type]
            bias=False,
        )
        with torch.no_grad():
            self.depth.weight.copy_(color.weight.mean(1, keepdim=True))
        self.norm = nn.BatchNorm2d(color.out_channels)
        # After the ReLU, so that it gets a gradient even at zero.
        self.scale = nn.Parameter(torch.zeros(1, color.out_channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the first layer's output for colors and depth together."""
        color: Tensor = self.color(x[:, :COLORS])
        depth: Tensor = self.norm(self.depth(x[:, COLORS:]))
        return color + self.scale * depth.relu()


def first_convolution(body: nn.Module, backbone: str) -> tuple[str, nn.Conv2d]:
    """Return the name and the module of a timm network's first convolution."""
    config = getattr(body, "pretrained_cfg", None) or {}
    name = config.get("first_conv")
    layer = body.get_submodule(name) if isinstance(name, str) else None
    if not isinstance(layer, nn.Conv2d) or layer.in_channels != COLORS:
        raise SettingError(
            f"model '{backbone}' has no single first convolution to which depth can be added; "
            "choose another backbone, or a stream without depth"
        )
    assert isinstance(name, str)
    return name, layer


def widen(body: nn.Module, backbone: str) -> None:
    """Add a depth channel to the first convolution, with the mean of the colors' weights.

    The colors keep their weights.
    """
    _, layer = first_convolution(body, backbone)
    weight = layer.weight.detach()
    layer.weight = nn.Parameter(torch.cat([weight, weight.mean(1, keepdim=True)], 1))
    layer.in_channels = COLORS + 1


def add_stem(body: nn.Module, backbone: str) -> None:
    """Replace the first convolution with a :class:`DepthStem`."""
    name, layer = first_convolution(body, backbone)
    body.set_submodule(name, DepthStem(layer))
