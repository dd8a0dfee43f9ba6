"""Herding: the samples of a class whose mean feature is nearest to that of the whole class."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def herding_order(features: Tensor, n: int, mean: Tensor | None = None) -> Tensor:
    """Return n positions whose mean, after each choice, is nearest to the mean of all.

    Algorithm 4 of Rebuffi et al., "iCaRL: Incremental Classifier and Representation Learning"
    (2017): the k-th choice is argmin over x of ||mu - (phi(x) + sum of the chosen) / k||. The
    paper scales means, like all features, to length 1; such a mu can be passed as ``mean``.

    >>> herding_order(torch.tensor([[0.0], [1.0], [5.0]]), 2).tolist()
    [1, 2]
    """
    n = min(n, len(features))
    chosen = torch.empty(n, dtype=torch.long, device=features.device)
    # ||k mu - s - phi||^2 without the terms that are equal for all: ||phi||^2 - 2 phi.(k mu - s).
    to_mean = features @ (features.mean(0) if mean is None else mean)
    squares = features.square().sum(1)
    to_chosen = torch.zeros_like(squares)
    for k in range(n):
        distance = squares - 2 * ((k + 1) * to_mean - to_chosen)
        best = distance.argmin()
        chosen[k] = best
        to_chosen += features @ features[best]
        squares[best] = torch.inf
    return chosen


def herd(features: Tensor, groups: Tensor, share: int) -> tuple[Tensor, Tensor]:
    """Choose up to ``share`` samples of each group, by features of length 1.

    Args:
        features: One row per sample.
        groups: The group of each sample.
        share: Maximum number of samples per group.

    Returns:
        The positions of the chosen samples, and the rank of each in its group's order.
    """
    positions, ranks = [], []
    for group in groups.unique():
        members = (groups == group).nonzero().squeeze(1)
        of_group = features[members.to(features.device)]
        order = herding_order(of_group, share, functional.normalize(of_group.mean(0), dim=0))
        positions.append(members[order.to(members.device)])
        ranks.append(torch.arange(len(order), device=members.device))
    return torch.cat(positions), torch.cat(ranks)
