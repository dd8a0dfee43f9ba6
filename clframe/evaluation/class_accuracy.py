"""The accuracy of each class, in addition to the accuracy of whole tasks.

Accuracy over all samples hides a class with few samples. The evaluators count correct predictions
by class in their normal pass; nothing is read from the device before the run ends. See
:mod:`clframe.evaluation.class_sizes` for what is shown.
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
    """Counts correct predictions and samples of each class, on the device of the predictions.

    Args:
        n_outputs: The stream's number of outputs.
        device: The labels' device.
        models: Number of models evaluated side by side, each with its own labels.
    """

    def __init__(self, n_outputs: int, device: torch.device, models: int = 1) -> None:
        self.n = n_outputs
        # One additional entry on either side counts labels that are not outputs.
        self.right = torch.zeros(models * (n_outputs + 2), dtype=torch.long, device=device)
        self.samples = torch.zeros_like(self.right)
        self._starts = torch.arange(models, device=device)[:, None] * (n_outputs + 2)

    def _positions(self, labels: Tensor) -> Tensor:
        own = labels.to(self.right.device).long().view(len(self._starts), -1)
        return (own.clamp(-1, self.n) + 1 + self._starts).flatten()

    def add(self, labels: Tensor, right: Tensor) -> None:
        """Count the correct predictions of a batch, or of a batch for each model."""
        self.right.index_add_(0, self._positions(labels), right.long().flatten())

    def tables(self, labels: Tensor) -> list[Tensor]:
        """Return correct predictions and samples by class, for each model and all of its labels."""
        positions = self._positions(labels)
        self.samples.index_add_(0, positions, torch.ones_like(positions))
        counts = torch.stack([self.right, self.samples]).view(2, len(self._starts), -1)
        return list(counts[:, :, 1:-1].transpose(0, 1))


class CountsClasses(Plugin):
    """An evaluator that also counts correct predictions by class."""

    state: ClassVar[tuple[str, ...]] = ("tables", "last")

    def __init__(self) -> None:
        self.tables: dict[str, Tensor] = {}
        """Tables of single tasks; under an empty name, of all tasks of a row."""
        self.last: Tensor | None = None
        """The table of the matrix's last row."""
        self._stream: Stream | None = None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the counts; runs of older versions have none."""
        if state:
            super().load_state_dict(state)

    @hookimpl
    def configure(self, stream: Stream) -> None:
        """Store the stream, for the classes' names."""
        self._stream = stream

    @hookimpl(tryfirst=True)
    def after_prepare(self, stream: Stream) -> None:
        """Report the samples of each class if they differ."""
        counts = training_counts(stream)
        if is_unequal(list(counts.values())):
            warn_user(f"classes differ in size: {listed_counts(counts, class_names(stream))}")

    @hookimpl(tryfirst=True)
    def after_evaluation(self, results: dict[str, dict[str, float]]) -> None:
        """Keep the counts of the row if all of its tasks were counted."""
        table = self.tables.get("")
        if table is None and results and all(name in self.tables for name in results):
            table = torch.stack([self.tables[name] for name in results]).sum(0)
        self.last = table

    @hookimpl(tryfirst=True)
    def metrics(self, result: Result) -> None:
        """Add the counts of the last row to the result."""
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
