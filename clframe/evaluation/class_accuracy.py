"""How each class fares, next to the accuracy of whole tasks.

A class of a few samples hides in an accuracy over all of them. The evaluators count right
predictions by class in the pass that they make anyway; nothing is read from the device before the
run has ended. See :mod:`clframe.evaluation.class_sizes` for what is shown of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from clframe.core.plugin import Plugin
from clframe.evaluation.class_sizes import (
    MEASURED,
    class_names,
    is_unequal,
    listed_counts,
    training_counts,
)
from clframe.hookspecs import hookimpl
from clframe.utils.console import warn_user

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.results import Result
    from clframe.core.stream import Stream


class ClassCounter:
    """Right predictions and samples of each class, on the device where predictions are made.

    Args:
        n_outputs: Of the stream.
        device: Where labels are.
        models: How many are evaluated side by side, each with labels of its own.
    """

    def __init__(self, n_outputs: int, device: torch.device, models: int = 1) -> None:
        self.n = n_outputs
        # A place on either side for labels that are no outputs; none of them is shown.
        self.right = torch.zeros(models * (n_outputs + 2), dtype=torch.long, device=device)
        self.samples = torch.zeros_like(self.right)
        self._starts = torch.arange(models, device=device)[:, None] * (n_outputs + 2)

    def _places(self, labels: Tensor) -> Tensor:
        own = labels.to(self.right.device).long().view(len(self._starts), -1)
        return (own.clamp(-1, self.n) + 1 + self._starts).flatten()

    def add(self, labels: Tensor, right: Tensor) -> None:
        """Count the right predictions of a batch, or of a batch for each model."""
        self.right.index_add_(0, self._places(labels), right.long().flatten())

    def tables(self, labels: Tensor) -> list[Tensor]:
        """Return right predictions and samples by class, for each model and all of its labels."""
        places = self._places(labels)
        self.samples.index_add_(0, places, torch.ones_like(places))
        counts = torch.stack([self.right, self.samples]).view(2, len(self._starts), -1)
        return list(counts[:, :, 1:-1].transpose(0, 1))


class CountsClasses(Plugin):
    """An evaluator that counts right predictions by class, too."""

    state: ClassVar[tuple[str, ...]] = ("tables", "last")

    def __init__(self) -> None:
        self.tables: dict[str, Tensor] = {}
        """Of single tasks; of all tasks of a row under an empty name."""
        self.last: Tensor | None = None
        """Of the last row of the matrix."""
        self._stream: Stream | None = None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the counts; a run of an older version has none."""
        if state:
            super().load_state_dict(state)

    @hookimpl
    def configure(self, stream: Stream) -> None:
        """Know the classes' names."""
        self._stream = stream

    @hookimpl(tryfirst=True)
    def after_prepare(self, stream: Stream) -> None:
        """Show how many samples each class has, if that differs."""
        counts = training_counts(stream)
        if is_unequal(list(counts.values())):
            warn_user(f"classes differ in size: {listed_counts(counts, class_names(stream))}")

    @hookimpl(tryfirst=True)
    def after_evaluation(self, results: dict[str, dict[str, float]]) -> None:
        """Keep the counts of the row, if all of its tasks were counted."""
        whole = self.tables.get("")
        if whole is None and results and all(name in self.tables for name in results):
            whole = torch.stack([self.tables[name] for name in results]).sum(0)
        self.last = whole

    @hookimpl(tryfirst=True)
    def metrics(self, result: Result) -> None:
        """Hand over the counts of the last row."""
        stream = self._stream
        if self.last is None or stream is None:
            return
        right, samples = self.last.tolist()
        units = [unit for unit, n in enumerate(samples) if n]
        if len(units) < 2:
            return
        names, learned = class_names(stream), training_counts(stream)
        result.measured[MEASURED] = {
            "names": [names.get(unit, str(unit)) for unit in units],
            "right": [right[unit] for unit in units],
            "tested": [samples[unit] for unit in units],
            "accuracy": [right[unit] / samples[unit] for unit in units],
            **({"learned": [learned.get(unit, 0) for unit in units]} if learned else {}),
        }


def count_all(learner: Learner) -> ClassCounter:
    """Return a counter for a learner's outputs, on its device."""
    return ClassCounter(learner.stream.n_outputs, learner.engine.device)
