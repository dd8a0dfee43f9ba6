"""Streaming linear discriminant analysis."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from clframe import SettingError

from ._feature_space import (
    Features,
    FeatureSpaceClassifier,
    Linear,
    class_sums,
    discriminants,
    double_on,
)


def streaming_scatter(
    vectors: Tensor, labels: Tensor, counts: Tensor, sums: Tensor, taken: int
) -> Tensor:
    """Return the sum over a batch of t/(t+1) (x - m)(x - m)^T, m the mean of x's class before x.

    All at once: sorted by class, the sums before each sample are differences of one running sum.

    Args:
        vectors: Vectors of the batch, in order of arrival.
        labels: Their classes.
        counts: Samples of each class before the batch.
        sums: Sum of each class's vectors before the batch.
        taken: Number of samples before the batch.
    """
    order = labels.argsort(stable=True)
    x, y = vectors[order], labels[order]
    running = x.cumsum(0) - x
    first = torch.searchsorted(y, y)  # of each sample's class in the batch
    position = torch.arange(len(y), device=y.device)
    number = counts[y] + (position - first)
    before = sums[y] + running - running[first]
    means = before / number.clamp(min=1)[:, None]
    step = (taken + order).to(x.dtype)
    deviation = (x - means) * (step / (step + 1)).sqrt()[:, None]
    return deviation.T @ deviation


class SLDA(FeatureSpaceClassifier):
    """Streaming linear discriminant analysis: class means and one shared covariance.

    Hayes & Kanan (2020), section 3: with t samples so far, the next one x of class y gives

        S_{t+1} = (t S_t + D_t) / (t + 1),   D_t = t / (t + 1) (x - m_y)(x - m_y)^T

    (Eq. 3) with the class's mean m_y before x, which is then moved (a new class has the
    mean 0, as in the authors' program). A class's score is w_k x + b_k with w_k = L m_k,
    b_k = - m_k L m_k / 2 and L = ((1 - e) S + e I)^-1. Batches give the same sums as single
    samples. ``covariance=scatter`` takes the covariance about the final means instead, which
    does not depend on the order of the samples.

    Args:
        shrinkage: e above.
        covariance: ``streaming`` as in the paper, or the pooled within-class ``scatter``.
        features: The ``model``'s, or the ``raw`` inputs.
        adapt_first: Train the model on the first experience, then fix its features.

    Example:
        ``clframe fit strategy=slda model=frozen``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe_contrib.slda import SLDA
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [SLDA(shrinkage=1e-3)]).strategy
        'slda'
    """

    name = "slda"
    paper = (
        "Hayes & Kanan, Lifelong Machine Learning with Deep Streaming Linear Discriminant "
        "Analysis, 2020"
    )
    state = ("taken", "counts", "sums", "scatter")

    def __init__(
        self,
        shrinkage: float = 1e-4,
        covariance: Literal["streaming", "scatter"] = "streaming",
        features: Features = "model",
        adapt_first: bool = False,
    ) -> None:
        super().__init__(features, adapt_first)
        if not 0 < shrinkage <= 1:
            raise SettingError(
                f"{self.name}.shrinkage must be above 0 and at most 1, got {shrinkage!r}"
            )
        self.shrinkage = shrinkage
        self.covariance = covariance
        self.counts: Tensor
        self.sums: Tensor
        self.scatter: Tensor

    def begin(self, width: int, n_outputs: int, seed: int, device: torch.device) -> None:
        """Create sums of vectors for each output unit, and one of outer products."""
        kind = double_on(device)
        self.counts = torch.zeros(n_outputs, dtype=kind, device=device)
        self.sums = torch.zeros(n_outputs, width, dtype=kind, device=device)
        self.scatter = torch.zeros(width, width, dtype=kind, device=device)

    def add(self, vectors: Tensor, labels: Tensor) -> None:
        """Add to the sums."""
        vectors = vectors.to(self.sums.dtype)
        if self.covariance == "streaming":
            self.scatter += streaming_scatter(vectors, labels, self.counts, self.sums, self.taken)
        else:
            self.scatter += vectors.T @ vectors
        counts, sums = class_sums(vectors, labels, len(self.counts))
        self.counts += counts
        self.sums += sums

    def solve(self) -> Linear:
        """Return the classifier of the regularized covariance."""
        means = self.sums / self.counts.clamp(min=1)[:, None]
        total = self.counts.sum()
        scatter = self.scatter
        if self.covariance == "scatter":
            scatter = scatter - self.sums.T @ means
        shrunk = (1 - self.shrinkage) * scatter / total
        shrunk.diagonal().add_(self.shrinkage)
        return discriminants(means, shrunk)

    def score(self, vectors: Tensor, solution: Linear) -> Tensor:
        """Return the discriminants."""
        return vectors @ solution.weight.T + solution.bias
