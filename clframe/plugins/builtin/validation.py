"""Measure the loss on held-out demonstrations besides the success rate (LIBERO, App. E.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch

from clframe.core import hooks
from clframe.core.plugin import Plugin
from clframe.hookspecs import hookimpl
from clframe.metrics.info import MetricInfo
from clframe.robot.evaluation import Evaluation

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience, Task


class ValidationLoss(Plugin):
    """Validation loss on held-out demonstrations (``stream.val_demos``).

    It is measured for the tasks of the current experience together with their success
    (``evaluation.check_val_every_n_epoch``), so that the two can be compared: in behavioral
    cloning the loss does not predict success.

    Args:
        every_n_epochs: Interval in epochs.
    """

    name = "validation_loss"
    metric_info = (
        MetricInfo(
            "validation.final",
            "mean over experiences of the last loss on held-out demonstrations",
            "loss on held-out demonstrations after a task has been learned",
            higher_is_better=False,
        ),
    )
    state: ClassVar[tuple[str, ...]] = ("losses",)

    def __init__(self, every_n_epochs: int = 1) -> None:
        self.every_n_epochs = every_n_epochs
        self.losses: dict[str, list[float]] = {}

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Return the plugin if demonstrations are held out and tasks are measured in training."""
        every = context.evaluation.check_val_every_n_epoch
        evaluations = [task.evaluation for task in context.stream.tasks]
        held_out = any(isinstance(e, Evaluation) and e.validation for e in evaluations)
        return cls(every) if held_out and every is not None else None

    def measure(self, learner: Learner, experience: Experience) -> None:
        """Append the mean over the experience's tasks."""
        learner.eval()
        with learner.state.timing.measuring(), torch.inference_mode():
            losses = [loss_of(learner, task) for task in experience.tasks]
        learner.train()
        loss = sum(losses) / len(losses)
        self.losses.setdefault(experience.name, []).append(loss)
        learner.log("validation/loss", loss)

    @hookimpl(trylast=True)
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Measure the loss before learning (epoch 0)."""
        self.measure(learner, experience)

    @hookimpl
    def after_epoch(self, learner: Learner, experience: Experience, epoch: int) -> None:
        """Measure the loss after every n-th epoch."""
        if (epoch + 1) % self.every_n_epochs == 0 and experience not in learner.seen:
            self.measure(learner, experience)

    @hookimpl
    def metrics(self) -> dict[str, dict[str, Any]] | None:
        """Return all losses by experience, a list for each, and the mean of the last ones."""
        curves = list(self.losses.values())
        if not curves:
            return None
        return {
            "validation": {
                "final": sum(curve[-1] for curve in curves) / len(curves),
                "losses": [list(curve) for curve in curves],
            }
        }


def loss_of(learner: Learner, task: Task) -> float:
    """Return the learner's mean loss over the held-out data of a task."""
    engine = learner.engine
    evaluation = task.evaluation
    assert evaluation is not None
    assert evaluation.validation is not None
    data = evaluation.validation(task.index).to(engine.device)
    total = torch.zeros(2, dtype=torch.float64, device=engine.device)
    order = engine.share(torch.arange(len(data)))
    with hooks.in_task(learner, task), engine.autocast():
        for batch in data.batches(order, engine.evaluation.eval_batch_size):
            outputs, _ = learner.run_model(batch.x, batch.task)
            total[0] += learner.label_loss(outputs, batch).double() * len(batch)
            total[1] += len(batch)
    engine.sum({"loss": total})
    return float(total[0] / total[1])
