"""How a network made for colour images takes depth as a fourth channel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from clframe.errors import SettingError

COLOURS = 3


class Normalise(nn.Module):
    """Shifts and scales channels in 0..1 to what pretrained weights were learned with.

    Channels that are not colours (depth) get the mean over the colours.

    Args:
        channels: Of the inputs.
        mean: Of each colour.
        std: Of each colour.
    """

    def __init__(self, channels: int, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        for name, values in (("mean", mean), ("std", std)):
            common = sum(values) / len(values)
            colours = list(values) if channels >= COLOURS else []
            full = colours + [common] * (channels - len(colours))
            self.register_buffer(name, torch.tensor(full).view(1, -1, 1, 1), persistent=False)
        self.mean: Tensor
        self.std: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """The inputs in the units of the weights."""
        return (x - self.mean) / self.std


class DepthStem(nn.Module):
    """A first layer for colour beside one for depth; their outputs are added.

    The depth branch (convolution, batch normalisation, ReLU) ends in a scale of each channel that
    starts at zero: before training the network is exactly the colour network.

    Args:
        colour: The first convolution of a network for three channels.
    """

    def __init__(self, colour: nn.Conv2d) -> None:
        super().__init__()
        self.colour = colour
        # The same class and settings, so that its output has the same size (TF's padding, too).
        self.depth = type(colour)(
            1,
            colour.out_channels,
            colour.kernel_size,  # type: ignore[arg-type]
            colour.stride,  # type: ignore[arg-type]
            colour.padding,  # type: ignore[arg-type]
            bias=False,
        )
        with torch.no_grad():
            self.depth.weight.copy_(colour.weight.mean(1, keepdim=True))
        self.norm = nn.BatchNorm2d(colour.out_channels)
        # After the ReLU, so that it gets a gradient although it is zero.
        self.scale = nn.Parameter(torch.zeros(1, colour.out_channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """The first layer's output for colours and depth together."""
        colour: Tensor = self.colour(x[:, :COLOURS])
        depth: Tensor = self.norm(self.depth(x[:, COLOURS:]))
        return colour + self.scale * depth.relu()


def first_convolution(body: nn.Module, backbone: str) -> tuple[str, nn.Conv2d]:
    """The name and the module of a timm network's first convolution."""
    config = getattr(body, "pretrained_cfg", None) or {}
    name = config.get("first_conv")
    layer = body.get_submodule(name) if isinstance(name, str) else None
    if not isinstance(layer, nn.Conv2d) or layer.in_channels != COLOURS:
        raise SettingError(
            f"model '{backbone}' has no single first convolution that depth could be added to: "
            "choose another backbone, or a stream without depth"
        )
    assert isinstance(name, str)
    return name, layer


def widen(body: nn.Module, backbone: str) -> None:
    """Give the first convolution a channel for depth whose weights are the mean of the colours'.

    The colours keep theirs.
    """
    _, layer = first_convolution(body, backbone)
    weight = layer.weight.detach()
    layer.weight = nn.Parameter(torch.cat([weight, weight.mean(1, keepdim=True)], 1))
    layer.in_channels = COLOURS + 1


def add_stem(body: nn.Module, backbone: str) -> None:
    """Put a :class:`DepthStem` in the place of the first convolution."""
    name, layer = first_convolution(body, backbone)
    body.set_submodule(name, DepthStem(layer))
