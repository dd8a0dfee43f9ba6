"""An output layer per task, selected by the task's code at the end of the inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class CodedFeatures(nn.Module):
    """Maps inputs that end with the task's one-hot code to features that end with it.

    The layers inside do not see the code. It is only passed on to :class:`TaskHeads`, so that the
    features contain all inputs of the head.

    Args:
        features: Maps inputs without the code to one vector per sample.
        n_tasks: Length of the code.
    """

    def __init__(self, features: nn.Module, n_tasks: int) -> None:
        super().__init__()
        self.features = features
        self.n_tasks = n_tasks

    def forward(self, x: Tensor) -> Tensor:
        """Return features, then the code."""
        x = x.flatten(1)
        hidden: Tensor = self.features(x[:, : -self.n_tasks])
        return torch.cat([hidden, x[:, -self.n_tasks :].to(hidden.dtype)], 1)


class TaskHeads(nn.Module):
    """One linear head per task: ``sum_k code_k (W_k h + b_k)`` for features ``[h, code]``.

    A one-hot code selects the head of its task, and the gradient of all others is exactly zero. All
    heads are blocks of rows of one layer, as in Continual World (Wolczyk et al., 2021).

    Args:
        n_features: Length of the features without the code.
        n_tasks: Length of the code.
        n_outputs: Outputs of each head.
    """

    def __init__(self, n_features: int, n_tasks: int, n_outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(n_features, n_tasks * n_outputs)
        self.n_tasks, self.n_outputs = n_tasks, n_outputs

    def rows_of(self, task: int) -> range:
        """Return the rows of the layer that form the head of a task.

        >>> TaskHeads(8, n_tasks=3, n_outputs=2).rows_of(1)
        range(2, 4)
        """
        return range(task * self.n_outputs, (task + 1) * self.n_outputs)

    def forward(self, features: Tensor) -> Tensor:
        """Return the outputs of each sample's own head."""
        hidden, code = features[:, : -self.n_tasks], features[:, -self.n_tasks :]
        of_heads: Tensor = self.linear(hidden).unflatten(1, (self.n_tasks, self.n_outputs))
        return (code.unsqueeze(2) * of_heads).sum(1)
