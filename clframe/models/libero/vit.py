"""A small vision transformer over the patches of all cameras and the instruction."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from clframe.models.libero.transformer import Transformer

PATCH = 16
"""Side of a patch in pixels: halved by the first convolution, then split into squares of 8."""


class Patches(nn.Module):
    """Splits images into patches, with a vector for each.

    Args:
        width: Length of a patch's vector.
        stem: Channels of the first convolution.
    """

    def __init__(self, width: int, stem: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, stem, 7, 2, 3, bias=False),
            nn.BatchNorm2d(stem),
            nn.ReLU(inplace=True),
            nn.Conv2d(stem, width, PATCH // 2, PATCH // 2),
            nn.BatchNorm2d(width),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Map ``[n, 3, h, w]`` to ``[n, patches, width]``."""
        patches: Tensor = self.layers(images)
        return patches.flatten(2).transpose(1, 2)


class ViTEncoder(nn.Module):
    """Encodes the images of one step as one vector, from a summary token.

    Args:
        cameras: Number of images.
        side: Pixels of an image's side.
        n_condition: Length of the instruction's vector.
        width: Width of a token.
        stem: Channels of the first convolution.
        transformer: The transformer over summary, patches and instruction, without a mask.
        n_outputs: Length of the vector.
    """

    def __init__(
        self,
        cameras: int,
        side: int,
        n_condition: int,
        width: int,
        stem: int,
        transformer: Transformer,
        n_outputs: int,
    ) -> None:
        super().__init__()
        self.cameras = nn.ModuleList(Patches(width, stem) for _ in range(cameras))
        self.instruction = nn.Linear(n_condition, width)
        # Embeddings instead of parameters, so that methods that mask weights by layer find them.
        self.places = nn.ModuleList(
            nn.Embedding((side // PATCH) ** 2, width) for _ in range(cameras)
        )
        self.kinds = nn.Embedding(cameras + 1, width)
        self.summary = nn.Embedding(1, width)
        self.transformer = transformer
        self.project = nn.Linear(width, n_outputs)
        for embedding in (*self.places, self.kinds, self.summary):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, images: Sequence[Tensor], condition: Tensor) -> list[Tensor]:
        """Encode one image ``[n, 3, h, w]`` per camera, with a vector per row, as one vector."""
        kinds = self.kinds.weight
        rows = [self.summary.weight.expand(len(condition), -1, -1)]
        for number, (patches, positions) in enumerate(zip(self.cameras, self.places, strict=True)):
            rows.append(patches(images[number]) + positions.weight + kinds[number])
        rows.append(self.instruction(condition)[:, None] + kinds[-1])
        return [self.project(self.transformer(torch.cat(rows, 1))[:, 0])]
