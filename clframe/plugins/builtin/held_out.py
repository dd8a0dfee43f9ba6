"""The evaluator of recorded robot tasks: action error on held-out demonstrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from clframe.core.plugin import Plugin
from clframe.hookspecs import hookimpl
from clframe.robot.offline_evaluation import HeldOut, evaluate

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.learner import Learner
    from clframe.core.stream import Task


class HeldOutActions(Plugin):
    """Share of the variance of held-out actions that the policy explains."""

    name = "held_out"

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Return the plugin only if a task is a recording."""
        tasks = context.stream.tasks
        return cls() if any(_how(task) is not None for task in tasks) else None

    @hookimpl(trylast=True)
    def evaluate_task(self, learner: Learner, task: Task) -> dict[str, float] | None:
        """Return the measure of the matrix (``action_r2``), then the others."""
        how = _how(task)
        return None if how is None else evaluate(learner, task, how)


def _how(task: Task) -> HeldOut | None:
    how = task.evaluation
    return how if isinstance(how, HeldOut) else None
