"""RanDumb: a random kernel embedding of the inputs and a linear discriminant."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from clframe import SettingError
from clframe.utils.setting_checks import check_at_least

from ._feature_space import (
    Features,
    FeatureSpaceClassifier,
    Linear,
    class_sums,
    discriminants,
    double_on,
)


class RanDumb(FeatureSpaceClassifier):
    """RanDumb: random Fourier features of the inputs, decorrelated, with nearest class means.

    Prabhu et al. (2024), section 2: z(x) = sqrt(2 / D) cos(W x + b), the Fourier features of
    Rahimi & Recht (2007) for the kernel exp(-g |x - x'|^2), W normal with variance 2 g, b uniform
    in 0 .. 2 pi; then the Mahalanobis distance to the class means with one covariance shared by all
    classes, updated as samples come. The covariance is shrunk towards a multiple of the
    identity by the oracle approximating shrinkage of Chen et al. (2010), which has no setting.
    Nothing is learned by gradient, and no sample is kept.

    Args:
        embedding: D above. (The paper has 25,000; the covariance then takes 2.5 GB.)
        gamma: g above; None takes 1 / (inputs x their variance), of the first batch.
        features: The ``raw`` inputs, or the ``model``'s.
        adapt_first: Train the model on the first experience, then fix its features.

    Example:
        ``clframe fit strategy=randumb stream=split_mnist``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe_contrib.randumb import RanDumb
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [RanDumb(embedding=1000)]).strategy
        'randumb'
    """

    name = "randumb"
    paper = (
        "Prabhu et al., RanDumb: Random Representations Outperform Online Continually Learned "
        "Representations, 2024"
    )
    state = ("taken", "counts", "sums", "gram", "scale")

    def __init__(
        self,
        embedding: int = 2000,
        gamma: float | None = None,
        features: Features = "raw",
        adapt_first: bool = False,
    ) -> None:
        super().__init__(features, adapt_first)
        if gamma is not None and not gamma > 0:
            raise SettingError(f"randumb.gamma must be above 0, got {gamma!r}")
        self.embedding = embedding
        self.gamma = gamma
        check_at_least(self, self.name, embedding=1)
        self.scale = 0.0 if gamma is None else math.sqrt(2 * gamma)
        """The standard deviation of W's entries; 0 before the first batch."""
        self.sums: Tensor
        self.gram: Tensor
        self._weights: Tensor
        self._phase: Tensor

    def begin(self, width: int, n_outputs: int, seed: int, device: torch.device) -> None:
        """Draw W, of unit variance, and b; create the sums."""
        generator = torch.Generator().manual_seed(seed)
        self._weights = torch.randn(width, self.embedding, generator=generator).to(device)
        self._phase = (2 * math.pi * torch.rand(self.embedding, generator=generator)).to(device)
        self.counts = torch.zeros(n_outputs, dtype=double_on(device), device=device)
        self.sums = torch.zeros(n_outputs, self.embedding, dtype=double_on(device), device=device)
        self.gram = torch.zeros(self.embedding, self.embedding, device=device)

    def embed(self, vectors: Tensor) -> Tensor:
        """Return z(x)."""
        if not self.scale:
            gamma = 1 / (vectors.shape[1] * max(float(vectors.var()), 1e-12))
            self.scale = math.sqrt(2 * gamma)
        angle = torch.addmm(self._phase, vectors, self._weights, alpha=self.scale)
        return angle.cos_().mul_(math.sqrt(2 / self.embedding))

    def add(self, vectors: Tensor, labels: Tensor) -> None:
        """Add to the sums."""
        self.gram.addmm_(vectors.T, vectors)
        counts, sums = class_sums(vectors.to(self.sums.dtype), labels, len(self.counts))
        self.counts += counts
        self.sums += sums

    def solve(self) -> Linear:
        """Return the discriminants of the shrunk covariance about the class means."""
        means = self.sums / self.counts.clamp(min=1)[:, None]
        covariance = (self.gram.to(means.dtype) - self.sums.T @ means) / self.counts.sum()
        return discriminants(means, oas(covariance, int(self.counts.sum())))

    def score(self, vectors: Tensor, solution: Linear) -> Tensor:
        """Return the discriminants."""
        return vectors @ solution.weight.T + solution.bias


def oas(covariance: Tensor, n: int) -> Tensor:
    """Shrink the covariance of n samples towards a multiple of the identity.

    Chen et al., "Shrinkage algorithms for MMSE covariance estimation" (2010), Eq. 23: (1 - r) S +
    r m I with m the mean of the diagonal, p the width and
    r = min(1, ((1 - 2/p) tr(S^2) + tr(S)^2) / ((n + 1 - 2/p) (tr(S^2) - tr(S)^2 / p))).
    """
    p = len(covariance)
    trace, square = covariance.trace(), covariance.square().sum()
    above = (1 - 2 / p) * square + trace.square()
    below = (n + 1 - 2 / p) * (square - trace.square() / p)
    rho = float((above / below.clamp(min=torch.finfo(covariance.dtype).tiny)).clamp(max=1.0))
    shrunk = (1 - rho) * covariance
    shrunk.diagonal().add_(rho * float(trace) / p)
    return shrunk
