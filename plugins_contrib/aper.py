"""APER: adapt once to the first experience, then use nearest class means of both networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from clframe import PluginError, hookimpl
from clframe.core.protocols import feature_width
from clframe.models.tuning.adapter import put_adapters
from clframe.models.tuning.frozen import hold_norms, tune
from clframe.models.tuning.inserts import without_inserts
from clframe.utils.setting_checks import check_at_least

from ._feature_space import FeatureSpaceClassifier, class_sums, double_on
from ._tuner import KEEPS_HEAD

if TYPE_CHECKING:
    from clframe import Learner, Stream


class APER(FeatureSpaceClassifier):
    """APER: adapters tuned on the first experience, then nearest class means of both features.

    Zhou et al. (2024; ADAM in its first version), Algorithm 1 with adapters: the frozen network
    phi is adapted to phi* on the first experience by AdaptFormer's adapters and a linear head
    (Eq. 5). From then on nothing is trained: the features are [phi*(x), phi(x)] (Eq. 4), a class
    is their mean over its training samples, and the class with the largest cosine wins (Eq. 3).

    Args:
        hidden: Width of the adapters' bottleneck.
        scale: Factor of their added term.

    Example:
        ``clframe fit strategy=aper model=vit_tiny model.weights=fashion``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe_contrib.aper import APER
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [APER(hidden=16)], model="vit_tiny").strategy
        'aper'
    """

    name = "aper"
    paper = (
        "Zhou et al., Revisiting Class-Incremental Learning with Pre-Trained Models: "
        "Generalizability and Adaptivity are All You Need, 2024"
    )
    roles = (*FeatureSpaceClassifier.roles, "parameters", "tuning")
    excludes: ClassVar[Mapping[str, str]] = {
        **FeatureSpaceClassifier.excludes,
        "new head": KEEPS_HEAD,
    }
    capabilities = replace(
        FeatureSpaceClassifier.capabilities, distributed=False, needs_tokens=True
    )
    state = ("taken", "counts", "sums")

    def __init__(self, hidden: int = 64, scale: float = 0.1) -> None:
        super().__init__("model", adapt_first=True)
        self.hidden, self.scale = hidden, scale
        check_at_least(self, self.name, hidden=1)
        self.counts: Tensor
        self.sums: Tensor

    @hookimpl(tryfirst=True)
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Freeze the network and insert adapters."""

        def insert() -> list[Tensor]:
            put_adapters(learner.model, self.name, "parallel", self.hidden, self.scale)
            return []

        if feature_width(learner.model) is None:
            raise PluginError(
                f"plugin '{self.name}' needs a classifier with features and a head, which "
                f"{type(learner.model).__name__} is not: choose model=vit_tiny or a ViT of timm"
            )
        tune(learner.model, insert)
        super().configure(learner, stream)

    @hookimpl
    def before_epoch(self, learner: Learner) -> None:
        """Keep the running statistics of frozen norms."""
        hold_norms(learner.model)

    def begin(self, width: int, n_outputs: int, seed: int, device: torch.device) -> None:
        """Create sums of both features for each output unit."""
        kind = double_on(device)
        self.counts = torch.zeros(n_outputs, dtype=kind, device=device)
        self.sums = torch.zeros(n_outputs, 2 * width, dtype=kind, device=device)

    def add(self, vectors: Tensor, labels: Tensor) -> None:
        """Add to the sums."""
        counts, sums = class_sums(vectors.to(self.sums.dtype), labels, len(self.counts))
        self.counts += counts
        self.sums += sums

    def solve(self) -> Tensor:
        """Return the directions of the means."""
        means = self.sums / self.counts.clamp(min=1)[:, None]
        return functional.normalize(means, dim=1).float()

    def score(self, vectors: Tensor, solution: Tensor) -> Tensor:
        """Return cosines."""
        return functional.normalize(vectors, dim=1) @ solution.T

    def _vectors(self, learner: Learner, x: Any, task: Tensor) -> Tensor:
        adapted = super()._vectors(learner, x, task)
        with without_inserts(learner.model):
            plain = super()._vectors(learner, x, task)
        return torch.cat([adapted, plain], 1)
