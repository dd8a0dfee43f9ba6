"""One training step, as the per-step hooks see it."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from clframe.data.dataset import Batch


class Term(NamedTuple):
    """A loss term that takes part in the weighted mean of the step's parts."""

    value: Tensor
    weight: float


class Step:
    """What happened in one training step so far; handed to the per-step hooks."""

    __slots__ = ("features", "loss", "losses", "outputs", "parts", "term_names", "terms")

    def __init__(self, parts: list[Batch], outputs: list[Any], features: list[Any]) -> None:
        self.parts = parts
        self.outputs = outputs
        self.features = features
        self.loss: Tensor | None = None
        self.losses: list[Tensor] = []
        """The loss of each part, where there is more than the current batch; detached."""
        self.terms: list[Tensor] = []
        """What plugins answered to ``penalty``, in their order; detached."""
        self.term_names: list[str] = []
        """Whose each of these is."""

    @property
    def batch(self) -> Batch:
        """The current experience's own samples."""
        return self.parts[0]
