"""Nearest class mean in a fixed feature space."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ._feature_space import (
    Features,
    FeatureSpaceClassifier,
    class_sums,
    double_on,
)


class NCM(FeatureSpaceClassifier):
    """Nearest class mean: one pass over the data, nothing to forget.

    The mean of a class's features is its prototype (Mensink et al., 2013, Eq. 2 and 3; with the
    cosine of a pretrained model's features it is SimpleCIL of Zhou et al., "Revisiting
    class-incremental learning with pre-trained models", 2023).

    Args:
        metric: ``euclidean`` distance to the mean, or ``cosine`` of the angle to it.
        features: The ``model``'s, or the ``raw`` inputs.
        adapt_first: Train the model on the first experience, then fix its features.

    Example:
        ``clframe fit strategy=ncm model=frozen``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe_contrib.ncm import NCM
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [NCM(metric="cosine")]).strategy
        'ncm'
    """

    name = "ncm"
    paper = "Mensink et al., Distance-Based Image Classification: Generalizing to New Classes, 2013"
    state = ("taken", "counts", "sums")

    def __init__(
        self,
        metric: Literal["euclidean", "cosine"] = "euclidean",
        features: Features = "model",
        adapt_first: bool = False,
    ) -> None:
        super().__init__(features, adapt_first)
        self.metric = metric
        self.counts: Tensor
        self.sums: Tensor

    def begin(self, width: int, n_outputs: int, seed: int, device: torch.device) -> None:
        """Create a sum of vectors for each output unit."""
        self.counts = torch.zeros(n_outputs, dtype=double_on(device), device=device)
        self.sums = torch.zeros(n_outputs, width, dtype=double_on(device), device=device)

    def add(self, vectors: Tensor, labels: Tensor) -> None:
        """Add to the sums of the classes."""
        counts, sums = class_sums(vectors.to(self.sums.dtype), labels, len(self.counts))
        self.counts += counts
        self.sums += sums

    def solve(self) -> Tensor:
        """Return the means."""
        return (self.sums / self.counts.clamp(min=1)[:, None]).float()

    def score(self, vectors: Tensor, solution: Tensor) -> Tensor:
        """Return the cosine with each mean, or the negative squared distance to it."""
        if self.metric == "cosine":
            return functional.normalize(vectors, dim=1) @ functional.normalize(solution, dim=1).T
        # |x - m|^2 without |x|^2, which is the same for all classes.
        return 2 * vectors @ solution.T - solution.square().sum(1)
