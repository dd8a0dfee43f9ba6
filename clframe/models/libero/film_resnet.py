"""A ResNet that an instruction modulates; its output is points of the image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

Stem: TypeAlias = Literal["resnet", "patch"]


class FiLM(nn.Module):
    """Scales and shifts channels as a linear function of a vector (Perez et al., ``FiLM``, 2018).

    ``h <- (1 + gamma) h + beta`` with ``(beta, gamma)`` linear in the vector, as in LIBERO.

    Args:
        n_condition: Length of the vector.
        channels: Channels of the maps.
    """

    def __init__(self, n_condition: int, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_condition, 2 * channels)

    def forward(self, maps: Tensor, condition: Tensor) -> Tensor:
        """Modulate ``[n, channels, h, w]`` by one vector per row."""
        beta, gamma = self.linear(condition)[..., None, None].chunk(2, 1)
        modulated: Tensor = (1 + gamma) * maps + beta
        return modulated


class SpatialSoftmax(nn.Module):
    """Converts each map to the mean position of its mass: x, y in -1..1 (Finn et al., 2016).

    Args:
        channels: Channels of the maps.
        points: Number of positions.
    """

    def __init__(self, channels: int, points: int) -> None:
        super().__init__()
        self.maps = nn.Conv2d(channels, points, 1)

    def forward(self, maps: Tensor) -> Tensor:
        """Convert ``[n, channels, h, w]`` to ``[n, 2 * points]``."""
        maps = self.maps(maps)
        height, width = maps.shape[-2:]
        mass = maps.flatten(2).softmax(2).unflatten(2, (height, width))
        across = torch.linspace(-1.0, 1.0, width, device=maps.device, dtype=maps.dtype)
        down = torch.linspace(-1.0, 1.0, height, device=maps.device, dtype=maps.dtype)
        x, y = mass.sum(2) @ across, mass.sum(3) @ down
        return torch.stack([x, y], 2).flatten(1)


def make_stem(kind: Stem, width: int) -> nn.Sequential:
    """Return layers from images to maps of a quarter of their side.

    Args:
        kind: ``resnet`` is ResNet's stem, a convolution over 7 pixels and a maximum over 3, each
            with stride 2. ``patch`` is one convolution over patches of 4 pixels, as in ConvNeXt
            (Liu et al., 2022): a tenth of the operations.
        width: Channels of the maps.
    """
    if kind == "patch":
        return nn.Sequential(
            nn.Conv2d(3, width, 4, 4, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        )
    return nn.Sequential(
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    )


class FiLMResNet(nn.Module):
    """ResNet-18 up to its second stage, ``FiLM`` after each block, then points and a vector.

    Args:
        n_condition: Length of the instruction's vector.
        width: Channels of the first stage; 64 in ResNet-18.
        points: Maps of the spatial softmax.
        n_outputs: Length of the vector.
        stem: The layers before the blocks; see :func:`make_stem`.
    """

    def __init__(
        self, n_condition: int, width: int, points: int, n_outputs: int, stem: Stem = "resnet"
    ) -> None:
        super().__init__()
        # Imported here, because torchvision is slow to import and most runs do not need it.
        from torchvision.models.resnet import BasicBlock

        self.stem = make_stem(stem, width)
        # Faster on the CPUs we tested; ResNet's own stem stays unchanged.
        self.channels_last = stem == "patch"
        narrow = nn.Sequential(
            nn.Conv2d(width, 2 * width, 1, 2, bias=False), nn.BatchNorm2d(2 * width)
        )
        self.blocks = nn.ModuleList(
            [
                BasicBlock(width, width),
                BasicBlock(width, width),
                BasicBlock(width, 2 * width, 2, narrow),
                BasicBlock(2 * width, 2 * width),
            ]
        )
        self.films = nn.ModuleList(
            FiLM(n_condition, channels) for channels in (width, width, 2 * width, 2 * width)
        )
        self.points = SpatialSoftmax(2 * width, points)
        self.project = nn.Linear(2 * points, n_outputs)
        for module in (*self.stem, *self.blocks.modules()):
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor, condition: Tensor) -> Tensor:
        """Encode images ``[n, 3, h, w]`` in 0..1, with a vector for each, as ``[n, n_outputs]``."""
        if self.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        maps = self.stem(images)
        for block, film in zip(self.blocks, self.films, strict=True):
            maps = film(block(maps), condition)
        features: Tensor = self.project(self.points(maps))
        return features


class FiLMResNetEncoder(nn.Module):
    """A modulated ResNet for each camera, with one output vector each.

    Args:
        cameras: Number of cameras.
        n_condition: Length of the instruction's vector.
        width: Channels of the first stage.
        points: Maps of the spatial softmax.
        n_outputs: Length of a vector.
        stem: The layers before the blocks.
    """

    def __init__(
        self,
        cameras: int,
        n_condition: int,
        width: int,
        points: int,
        n_outputs: int,
        stem: Stem = "resnet",
    ) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(
            FiLMResNet(n_condition, width, points, n_outputs, stem) for _ in range(cameras)
        )

    def forward(self, images: Sequence[Tensor], condition: Tensor) -> list[Tensor]:
        """Encode one image ``[n, 3, h, w]`` per camera, with a vector per row, as vectors."""
        pairs = zip(self.encoders, images, strict=True)
        return [encoder(image, condition) for encoder, image in pairs]
