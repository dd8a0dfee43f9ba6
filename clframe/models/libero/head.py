"""The head of LIBERO's policies: a perceptron, then the numbers of a mixture of Gaussians."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MixtureHead(nn.Module):
    """Three linear layers, the last without activation, then means, deviations and logits.

    Args:
        n_inputs: Length of what is known at a step.
        width: Of the three layers.
        n_actions: Numbers of an action.
        modes: Gaussians of the mixture.
    """

    def __init__(self, n_inputs: int, width: int, n_actions: int, modes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_inputs, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width),
        )
        self.means = nn.Linear(width, modes * n_actions)
        self.deviations = nn.Linear(width, modes * n_actions)
        self.logits = nn.Linear(width, modes)

    def forward(self, features: Tensor) -> Tensor:
        """``[..., n_inputs]`` to outputs as :class:`clframe.models.mixture.ActionMixture` says."""
        hidden = self.layers(features)
        return torch.cat([self.means(hidden), self.deviations(hidden), self.logits(hidden)], -1)
