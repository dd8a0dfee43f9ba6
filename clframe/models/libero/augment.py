"""LIBERO's image augmentation: color jitter, and a shift by a few pixels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

_CHANCE = 0.9
"""Probability of color jitter."""


class Augment(nn.Module):
    """Augments the images of a sample equally in all steps and cameras, only in training.

    Args:
        color: Range of brightness, contrast, saturation and hue; 0 does not change them.
        shift: Largest shift in pixels, with a repeated border; 0 for none.
    """

    def __init__(self, color: float, shift: int) -> None:
        super().__init__()
        self.shift = shift
        self.jitter = None
        if color > 0:
            from torchvision.transforms.v2 import ColorJitter

            self.jitter = ColorJitter(color, color, color, min(color, 0.5))

    def forward(self, images: Sequence[Tensor]) -> list[Tensor]:
        """Augment each camera's images ``[n, steps, 3, h, w]`` in 0..1."""
        if not self.training:
            return list(images)
        views = list(images)
        if self.jitter is not None:
            views = list(self._recolored(torch.stack(views, 1)).unbind(1))
        return self._shifted(views) if self.shift else views

    def _recolored(self, views: Tensor) -> Tensor:
        assert self.jitter is not None
        chosen = torch.rand(len(views)) < _CHANCE
        rows = zip(views, chosen.tolist(), strict=True)
        return torch.stack([self.jitter(row) if change else row for row, change in rows])

    def _shifted(self, views: list[Tensor]) -> list[Tensor]:
        height, width = views[0].shape[-2:]
        moves = torch.randint(0, 2 * self.shift + 1, (len(views[0]), 2)).tolist()
        return [
            torch.stack(
                [
                    wide[..., down : down + height, across : across + width]
                    for wide, (down, across) in zip(self._widened(view), moves, strict=True)
                ]
            )
            for view in views
        ]

    def _widened(self, view: Tensor) -> Tensor:
        """Return the images with their border repeated outwards."""
        wide = functional.pad(view.flatten(0, 1), [self.shift] * 4, mode="replicate")
        shifted: Tensor = wide.unflatten(0, view.shape[:2])
        return shifted
