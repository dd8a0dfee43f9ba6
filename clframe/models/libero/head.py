"""The head of LIBERO's policies: a perceptron, then a layer for each group of outputs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class PerceptronHead(nn.Module):
    """Three linear layers, the last without activation, then one for each group of outputs.

    Args:
        n_inputs: Length of a step's features.
        width: Width of the three layers.
        sizes: Sizes of the groups; for a mixture, means, deviations and logits.
    """

    def __init__(self, n_inputs: int, width: int, sizes: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_inputs, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width),
        )
        self.groups = nn.ModuleList(nn.Linear(width, size) for size in sizes)

    def forward(self, features: Tensor) -> Tensor:
        """Map ``[..., n_inputs]`` to all outputs, group after group."""
        hidden = self.layers(features)
        return torch.cat([group(hidden) for group in self.groups], -1)
