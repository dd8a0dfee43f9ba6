"""Core's own evaluator: the share of samples classified rightly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from clframe import hooks
from clframe.hookspecs import hookimpl
from clframe.plugin import Plugin

if TYPE_CHECKING:
    from clframe.experience import Task
    from clframe.learner import Learner


class Accuracy(Plugin):
    """Measures the accuracy on a task's evaluation data."""

    together = True

    @hookimpl(trylast=True)
    def evaluate_task(self, learner: Learner, task: Task) -> dict[str, float] | None:
        """Accuracy over all samples; one read from the device per task."""
        if task.load is None:
            return None
        data = task.data.to(learner.engine.device)
        order = learner.engine.share(torch.arange(len(data)))
        right = torch.zeros((), dtype=torch.long, device=learner.engine.device)
        with learner.engine.autocast():
            for batch in data.batches(order, learner.engine.settings.eval_batch_size):
                scores = hooks.predict(learner, batch.x, task)
                right += (scores.argmax(1) == batch.y).sum()
        learner.engine.sum({"right": right})
        return {"accuracy": float(right) / max(len(data), 1)}

    @hookimpl(trylast=True)
    def predict(self, learner: Learner, x: Any, task: Task) -> Tensor:
        """The learner's active outputs."""
        first = next(iter(x.values())) if isinstance(x, dict) else x
        of_task = torch.full((len(first),), task.index, dtype=torch.long, device=first.device)
        return learner(x, of_task)  # type: ignore[no-any-return]
