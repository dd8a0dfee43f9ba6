"""Core's own evaluator: the share of correctly classified samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from clframe.core import hooks
from clframe.core.capabilities import Capabilities
from clframe.data.concat import join
from clframe.evaluation.class_accuracy import CountsClasses, count_all
from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Task


class Accuracy(CountsClasses):
    """Accuracy on a task's evaluation data, with counts for each class."""

    capabilities = Capabilities(batched_seeds=True)

    @hookimpl(trylast=True)
    def evaluate_tasks(
        self, learner: Learner, tasks: Sequence[Task]
    ) -> dict[str, dict[str, float]] | None:
        """Return the accuracy on all tasks in one pass, with one read from the device per row."""
        plugins = learner.plugins
        alone = plugins.only(self, "evaluate_task") and not plugins.implements("predict")
        if not alone or any(task.load is None for task in tasks):
            return None
        engine = learner.engine
        datasets = [task.data for task in tasks]
        data = join(datasets).to(engine.device)
        sizes = torch.tensor([len(dataset) for dataset in datasets])
        # A sample of a task's evaluation data may name another task, so count by column.
        column = torch.arange(len(tasks)).repeat_interleave(sizes)
        task_of = torch.tensor([task.index for task in tasks])[column].to(engine.device)
        column = column.to(engine.device)
        right = torch.zeros(len(tasks), dtype=torch.long, device=engine.device)
        classes = count_all(learner)
        order = engine.share(torch.arange(len(data)))
        with engine.autocast():
            for batch in data.batches(order, engine.evaluation.eval_batch_size):
                assert batch.positions is not None
                positions = batch.positions.to(engine.device)
                scores = learner(batch.x, task_of[positions])
                hits = scores.argmax(1) == batch.y
                right.index_add_(0, column[positions], hits.long())
                classes.add(batch.y, hits)
        engine.sum({"right": right, "classes": classes.right})
        self.tables = {"": classes.tables(data.labels)[0]}
        counts = zip(tasks, right.tolist(), sizes.tolist(), strict=True)
        return {task.name: {"accuracy": hits / max(n, 1)} for task, hits, n in counts}

    @hookimpl(trylast=True)
    def evaluate_task(self, learner: Learner, task: Task) -> dict[str, float] | None:
        """Return the accuracy over all samples, with one read from the device per task."""
        if task.load is None:
            return None
        data = task.data.to(learner.engine.device)
        order = learner.engine.share(torch.arange(len(data)))
        right = torch.zeros((), dtype=torch.long, device=learner.engine.device)
        classes = count_all(learner)
        counted = data.labels.ndim == 1
        with learner.engine.autocast():
            for batch in data.batches(order, learner.engine.evaluation.eval_batch_size):
                scores = hooks.predict(learner, batch.x, task)
                hits = scores.argmax(1) == batch.y
                right += hits.sum()
                if counted:
                    classes.add(batch.y, hits)
        learner.engine.sum({"right": right, "classes": classes.right})
        self.tables.pop("", None)
        if counted:
            self.tables[task.name] = classes.tables(data.labels)[0]
        return {"accuracy": float(right) / max(len(data), 1)}
