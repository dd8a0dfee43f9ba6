"""FeCAM: classification with a covariance of each class's features."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from clframe import DataError
from clframe.utils.setting_checks import check_at_least

from ._feature_space import (
    Features,
    FeatureSpaceClassifier,
    class_sums,
    double_on,
)


class Classes(NamedTuple):
    """Parameters of the distance: means of length 1 and inverse covariances of all classes."""

    means: Tensor
    inverses: Tensor


class FeCAM(FeatureSpaceClassifier):
    """FeCAM: the class with the smallest Mahalanobis distance, with a covariance per class.

    Goswami et al. (2023). Features are made more Gaussian by Tukey's x^p (Eq. 9), the covariance
    of each class is shrunk and normalized,

        S' = S + g1 V1 I + g2 V2 (1 - I),    N_ij = S'_ij / sqrt(S'_ii S'_jj)

    (Eq. 7 and 8; V1 the mean of the diagonal, V2 of the rest), and the distance is
    (x - m)^T N^-1 (x - m) (Eq. 6), with x and m scaled to length 1 as in the authors' program. The
    covariance divides by n - 1. A class needs memory of the squared number of features.

    Args:
        power: p above; 1 keeps features unchanged, 0 takes their logarithm. Features below zero
            have no root: use 1 with backbones whose last layer is not a ReLU.
        shrink_diagonal: g1.
        shrink_rest: g2.
        features: The ``model``'s, or the ``raw`` inputs.
        adapt_first: Train the model on the first experience, then fix its features, as in the
            paper's experiments from scratch.

    Example:
        ``clframe fit strategy=fecam adapt_first=true``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe_contrib.fecam import FeCAM
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [FeCAM(adapt_first=True)]).strategy
        'fecam'
    """

    name = "fecam"
    paper = (
        "Goswami et al., FeCAM: Exploiting the Heterogeneity of Class Distributions in "
        "Exemplar-Free Continual Learning, 2023"
    )
    state = ("taken", "counts", "sums", "squares")

    def __init__(
        self,
        power: float = 0.5,
        shrink_diagonal: float = 1.0,
        shrink_rest: float = 1.0,
        features: Features = "model",
        adapt_first: bool = False,
    ) -> None:
        super().__init__(features, adapt_first)
        self.power = power
        self.shrink_diagonal = shrink_diagonal
        self.shrink_rest = shrink_rest
        check_at_least(self, self.name, power=0, shrink_diagonal=0, shrink_rest=0)
        self.sums: Tensor
        self.squares: Tensor

    def begin(self, width: int, n_outputs: int, seed: int, device: torch.device) -> None:
        """Create sums of vectors and of their outer products for each output unit."""
        kind = double_on(device)
        self.counts = torch.zeros(n_outputs, dtype=kind, device=device)
        self.sums = torch.zeros(n_outputs, width, dtype=kind, device=device)
        self.squares = torch.zeros(n_outputs, width, width, dtype=kind, device=device)

    def embed(self, vectors: Tensor) -> Tensor:
        """Apply Tukey's transform."""
        if self.power == 1:
            return vectors
        return vectors.log() if self.power == 0 else vectors.pow(self.power)

    def add(self, vectors: Tensor, labels: Tensor) -> None:
        """Add to the sums of the classes."""
        vectors = vectors.to(self.sums.dtype)
        if not bool(vectors.isfinite().all()):
            raise DataError(
                f"fecam.power={self.power:g} is undefined for features below zero, which this "
                "model has: set fecam.power=1"
            )
        counts, sums = class_sums(vectors, labels, len(self.counts))
        self.counts += counts
        self.sums += sums
        for unit in labels.unique().tolist():
            of_unit = vectors[labels == unit]
            self.squares[unit].addmm_(of_unit.T, of_unit)

    def solve(self) -> Classes:
        """Return means and inverses of the shrunk, normalized covariances."""
        means = self.sums / self.counts.clamp(min=1)[:, None]
        inverses = torch.zeros_like(self.squares)
        for unit in self.counts.nonzero().squeeze(1).tolist():
            scatter = self.squares[unit] - self.counts[unit] * means[unit].outer(means[unit])
            covariance = self._normalized(scatter / (self.counts[unit] - 1).clamp(min=1))
            inverses[unit] = torch.linalg.pinv(covariance, hermitian=True)
        return Classes(functional.normalize(means, dim=1).float(), inverses.float())

    def _normalized(self, covariance: Tensor) -> Tensor:
        """Shrink a covariance and scale its diagonal to 1."""
        width = len(covariance)
        diagonal = covariance.diagonal().mean()
        rest = (covariance.sum() - covariance.diagonal().sum()) / max(1, width * (width - 1))
        shrunk = covariance + self.shrink_rest * rest
        shrunk.diagonal().add_(self.shrink_diagonal * diagonal - self.shrink_rest * rest)
        deviation = shrunk.diagonal().clamp(min=torch.finfo(shrunk.dtype).tiny).sqrt()
        return shrunk / deviation.outer(deviation)

    def score(self, vectors: Tensor, solution: Classes) -> Tensor:
        """Return the negative distance to each class."""
        x = functional.normalize(vectors, dim=1)
        distances = []
        for mean, inverse in zip(*solution, strict=True):
            off = x - mean
            distances.append(((off @ inverse) * off).sum(1))
        return -torch.stack(distances, dim=1)
