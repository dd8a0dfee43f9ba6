"""Quality of predictions: calibration, top-k, classes, confusions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from clframe.core import hooks
from clframe.core.capabilities import Capabilities
from clframe.core.matrix import BEFORE
from clframe.core.plugin import Plugin
from clframe.evaluation.evaluation_mode import evaluation_mode
from clframe.hookspecs import hookimpl
from clframe.recording.media import Heatmap
from clframe.utils.setting_checks import check_at_least

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.results import Result
    from clframe.core.stream import Task

_NAMES = ("ece", "top_k", "class_mean", "class_worst")


class Predictions(Plugin):
    """Calibration, top-k accuracy, each class and the confusion matrix after each row.

    * ``ece``, the expected calibration error (Guo et al. 2017, Eq. 3): samples are put into bins of
      equal width by the confidence of their prediction, the largest entry of the softmax of the
      scores; sum over bins of (share of samples) |accuracy - mean confidence|. Scores that are
      distances (nearest means) are treated as logits.
    * ``top_k``: the label is among the k highest scores. With only k competing outputs it is 1.
    * the confusion matrix, from label (row) to prediction (column), and from it the accuracy of
      each class.

    Tasks are those learned so far. ``ece`` and ``top_k`` of single tasks go to events and loggers.
    Those of all samples together, and the confusion matrix of each row, go to results.json. This
    needs a second pass over the evaluation data.

    Args:
        bins: Number of bins of the calibration error.
        top_k: k above.

    Example:
        >>> from clframe.plugins import Predictions
        >>> from clframe.testing import toy_run, toy_stream
        >>> result, _ = toy_run([Predictions(top_k=2)], toy_stream())
        >>> 0 <= result.metrics["predictions"]["ece"] <= 1
        True
    """

    name = "predictions"
    paper = "Guo et al., On Calibration of Modern Neural Networks, 2017"
    capabilities = Capabilities(evaluator=True, needs_class_labels=True)
    state: ClassVar[tuple[str, ...]] = ("values", "confusion")

    def __init__(self, bins: int = 15, top_k: int = 5) -> None:
        self.bins = bins
        self.top_k = top_k
        check_at_least(self, self.name, bins=1, top_k=1)
        self.values: dict[str, list[float | None]] = {name: [] for name in _NAMES}
        self.confusion: dict[str, list[list[int]]] = {}

    @hookimpl(tryfirst=True)
    def after_evaluation(
        self, learner: Learner, row: str, results: dict[str, dict[str, float]]
    ) -> None:
        """Measure the predictions for the tasks learned so far, before the row is recorded."""
        if row == BEFORE:
            return
        learned = {task.name for experience in learner.seen for task in experience.tasks}
        tasks = [t for t in learner.stream.tasks if t.name in learned and t.load is not None]
        n = learner.stream.n_outputs
        device = learner.engine.device
        # By task and bin: samples, correct ones, sum of confidences; by task: in the first k.
        table = torch.zeros(len(tasks), 3, self.bins, dtype=torch.float64).to(device)
        first_k = torch.zeros(len(tasks), dtype=torch.float64).to(device)
        confusion = torch.zeros(n * n, dtype=torch.long, device=device)
        with evaluation_mode(learner):
            for number, task in enumerate(tasks):
                with hooks.in_task(learner, task):
                    self._add(learner, task, table[number], first_k[number], confusion)
        learner.engine.sum({"table": table, "first_k": first_k, "confusion": confusion})
        table, first_k = table.cpu(), first_k.cpu()
        for number, task in enumerate(tasks):
            if task.name in results:
                samples = max(float(table[number, 0].sum()), 1.0)
                results[task.name]["ece"] = calibration_error(table[number])
                results[task.name]["top_k"] = float(first_k[number]) / samples
        square = confusion.cpu().view(n, n)
        of_class = square.sum(1)
        rates = square.diagonal()[of_class > 0].double() / of_class[of_class > 0]
        values = {
            "ece": calibration_error(table.sum(0)),
            "top_k": float(first_k.sum() / table[:, 0].sum().clamp(min=1)),
            "class_mean": float(rates.mean()) if len(rates) else None,
            "class_worst": float(rates.min()) if len(rates) else None,
        }
        for name, value in values.items():
            self.values[name].append(value)
        self.confusion[row] = square.tolist()
        if learner.step_log.takes_media:
            self._draw(learner, row, n)

    def _draw(self, learner: Learner, row: str, n: int) -> None:
        """Log the share of predictions by class, for the classes that were tested."""
        square = self.confusion[row]
        tested = [unit for unit in range(n) if sum(square[unit])]
        names = [str(unit) for unit in tested]
        shares = [[square[i][j] / sum(square[i]) for j in tested] for i in tested]
        image = Heatmap(shares, names, names, x="predicted", y="label")
        learner.log_media("confusion", image, f"after {row}")

    def _add(
        self, learner: Learner, task: Task, table: Tensor, first_k: Tensor, confusion: Tensor
    ) -> None:
        """Add a task's samples to the sums without reading from the device."""
        engine = learner.engine
        n = learner.stream.n_outputs
        data = task.data.to(engine.device)
        order = engine.share(torch.arange(len(data)))
        with engine.autocast():
            for batch in data.batches(order, engine.evaluation.eval_batch_size):
                scores = hooks.predict(learner, batch.x, task).double()
                confidence, _ = scores.softmax(1).max(1)
                predicted = scores.argmax(1)
                right = predicted == batch.y
                # Bins are open below and closed above, as in the paper.
                bin_index = (confidence * self.bins).ceil().long().sub_(1).clamp_(0, self.bins - 1)
                rows = torch.stack([torch.ones_like(confidence), right.double(), confidence])
                table.index_add_(1, bin_index, rows)
                best = scores.topk(min(self.top_k, n), dim=1).indices
                first_k += (best == batch.y[:, None]).any(1).sum()
                pairs = batch.y * n + predicted
                confusion.index_add_(0, pairs, torch.ones_like(pairs))

    @hookimpl
    def metrics(self, result: Result) -> None:
        """Store the values of each row, the confusions and the accuracy of each class."""
        by_class = {
            row: [line[i] / sum(line) if sum(line) else None for i, line in enumerate(square)]
            for row, square in self.confusion.items()
        }
        content: dict[str, Any] = {"bins": self.bins, "top_k": self.top_k, "values": self.values}
        result.measured[self.name] = {
            **content,
            "class_accuracy": by_class,
            "confusion": self.confusion,
        }


def calibration_error(table: Tensor) -> float:
    """Return the expected calibration error from sums by bin: samples, correct ones, confidences.

    >>> calibration_error(torch.tensor([[4.0, 0.0], [2.0, 0.0], [3.0, 0.0]]))
    0.25
    """
    samples, right, confidence = table
    return float((right - confidence).abs().sum() / samples.sum().clamp(min=1))
