"""RanPAC: ridge regression on a random projection of features."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from clframe.utils.setting_checks import check_at_least

from ._feature_space import Features, FeatureSpaceClassifier, double_on

if TYPE_CHECKING:
    from clframe import Data, Learner

RIDGES = tuple(10.0**exponent for exponent in range(-8, 9))
"""Candidate ridges, as in the authors' program."""


class RanPAC(FeatureSpaceClassifier):
    """RanPAC: ridge regression on a random projection h = relu(f W) of features.

    McDonnell et al. (2023), Algorithm 1: with one-hot labels Y, G = sum H^T H and C = sum H^T Y are
    kept over the stream, and the scores of a sample are h (G + r I)^-1 C (Eq. 6 and 7).
    The ridge r is chosen from 10^-8 .. 10^8 after each experience: fitted on ``1 - held_out`` of
    the experience's training data, the one with the least squared error on the rest (all of it then
    goes into G and C). W is drawn from a standard normal distribution by the run's seed.

    Args:
        projection: Columns of W; 0 uses the features directly. (The paper has 10,000; G then
            takes 400 MB, also in each checkpoint.)
        ridge: r above; None chooses it.
        held_out: Share of an experience's training data on which the ridge is chosen.
        features: The ``model``'s, or the ``raw`` inputs.
        adapt_first: Train the model on the first experience, then fix its features (the paper's
            first phase, there with few parameters of a transformer).

    Example:
        ``clframe fit strategy=ranpac strategy.ranpac.projection=500``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe_contrib.ranpac import RanPAC
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [RanPAC(projection=500)]).strategy
        'ranpac'
    """

    name = "ranpac"
    paper = (
        "McDonnell et al., RanPAC: Random Projections and Pre-trained Models for Continual "
        "Learning, 2023"
    )
    state = ("taken", "counts", "gram", "targets", "chosen")

    def __init__(
        self,
        projection: int = 2000,
        ridge: float | None = None,
        held_out: float = 0.2,
        features: Features = "model",
        adapt_first: bool = False,
    ) -> None:
        super().__init__(features, adapt_first)
        self.projection = projection
        self.ridge = ridge
        self.held_out = held_out
        check_at_least(self, self.name, projection=0, ridge=0, held_out=0)
        self.chosen = 1.0 if ridge is None else ridge
        """The ridge of the last experience."""
        self.gram: Tensor
        self.targets: Tensor
        self._weights: Tensor | None = None

    def begin(self, width: int, n_outputs: int, seed: int, device: torch.device) -> None:
        """Draw the projection; create G and C."""
        if self.projection:
            generator = torch.Generator().manual_seed(seed)
            self._weights = torch.randn(width, self.projection, generator=generator).to(device)
        size = self.projection or width
        self.counts = torch.zeros(n_outputs, device=device)
        self.gram = torch.zeros(size, size, device=device)
        self.targets = torch.zeros(size, n_outputs, device=device)

    def embed(self, vectors: Tensor) -> Tensor:
        """Return relu(f W)."""
        return vectors if self._weights is None else (vectors @ self._weights).relu_()

    def add(self, vectors: Tensor, labels: Tensor) -> None:
        """Add to G and C."""
        self.gram.addmm_(vectors.T, vectors)
        self.targets.T.index_add_(0, labels, vectors)
        self.counts += torch.bincount(labels, minlength=len(self.counts))

    def take_in(self, learner: Learner, data: Data) -> None:
        """Add the data that the ridge is fitted on, choose the ridge, add the rest."""
        number = len(learner.seen)
        generator = torch.Generator().manual_seed(learner.seed * 1_000_003 + number)
        order = torch.randperm(len(data), generator=generator)
        fitted = math.ceil((1 - self.held_out) * len(data))
        if self.ridge is not None or fitted == len(data):
            super().take_in(learner, data)
            return
        before = self.gram, self.targets
        self.gram, self.targets = torch.zeros_like(self.gram), torch.zeros_like(self.targets)
        super().take_in(learner, data.subset(order[:fitted]))
        first = self.gram, self.targets
        self.gram, self.targets = torch.zeros_like(self.gram), torch.zeros_like(self.targets)
        super().take_in(learner, data.subset(order[fitted:]))
        self.chosen = best_ridge(*first, self.gram, self.targets)
        self.gram += first[0] + before[0]
        self.targets += first[1] + before[1]

    def solve(self) -> Tensor:
        """Return (G + r I)^-1 C."""
        kind = double_on(self.gram.device)
        return ridge_solution(self.gram.to(kind), self.targets.to(kind), self.chosen).float()

    def score(self, vectors: Tensor, solution: Tensor) -> Tensor:
        """Return the regression's outputs."""
        return vectors @ solution


def ridge_solution(gram: Tensor, targets: Tensor, ridge: float) -> Tensor:
    """Return (G + r I)^-1 C, by least squares if that is singular."""
    system = gram.clone()
    system.diagonal().add_(ridge)
    factor, failed = torch.linalg.cholesky_ex(system)
    if failed:
        least: Tensor = torch.linalg.lstsq(system, targets, driver="gelsd").solution
        return least
    return torch.cholesky_solve(targets, factor)


def best_ridge(gram: Tensor, targets: Tensor, held_gram: Tensor, held_targets: Tensor) -> float:
    """Return the ridge whose solution has the least squared error on held-out samples.

    |H W - Y|^2 = tr(W^T G W) - 2 tr(W^T C) + |Y|^2 with the held-out G and C, so that no sample is
    needed. A ridge that makes the system singular is not considered.

    Args:
        gram: G of the fitted samples.
        targets: C of the fitted samples.
        held_gram: G of the held-out samples.
        held_targets: C of the held-out samples.
    """
    kind = double_on(gram.device)
    gram, targets = gram.to(kind), targets.to(kind)
    held_gram, held_targets = held_gram.to(kind), held_targets.to(kind)
    errors = []
    for ridge in RIDGES:
        system = gram.clone()
        system.diagonal().add_(ridge)
        factor, failed = torch.linalg.cholesky_ex(system)
        if failed:
            errors.append(math.inf)
            continue
        weights = torch.cholesky_solve(targets, factor)
        errors.append(float((weights * (held_gram @ weights - 2 * held_targets)).sum()))
    return RIDGES[min(range(len(RIDGES)), key=errors.__getitem__)]
