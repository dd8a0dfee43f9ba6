"""The shape all our classifiers share: features, then a linear head.

One linear layer serves all scenarios. In the task-incremental one, each task owns a block of its
rows and the learner masks the others, which is a head per task without a module per task.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Classifier(nn.Module):
    """Features followed by a linear head.

    Args:
        features: Maps inputs to one vector per sample.
        n_features: The length of that vector.
        n_outputs: Output units.
    """

    def __init__(self, features: nn.Module, n_features: int, n_outputs: int) -> None:
        super().__init__()
        self.features = features
        self.n_features = n_features
        self.head = nn.Linear(n_features, n_outputs)

    def forward(self, x: Any) -> Tensor:
        """Return one logit per output unit."""
        logits: Tensor = self.head(self.features(x))
        return logits
