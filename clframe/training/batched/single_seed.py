"""Training of one seed as in a group of seeds, so that it can be resumed or repeated alone.

Batched products have their own order of summation, whatever the number of seeds: a stack of
one model is bit-identical to the same seed in a group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.errors import SettingError
from clframe.evaluation.class_accuracy import CountsClasses
from clframe.hookspecs import hookimpl
from clframe.training.batched.batched_loop import train_batched
from clframe.training.batched.evaluation import batched_accuracies
from clframe.training.batched.stack import Stack, unsupported_learner
from clframe.training.loop import FitRequest

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience, Stream, Task
    from clframe.core.trainer import Budget
    from clframe.data.dataset import Data


class StackedLoop(Plugin):
    """Training loop on a stack of one model; replaces ``loop``."""

    name = "loop"
    capabilities = Capabilities(batched_seeds=True)

    def __init__(self) -> None:
        self._stack: Stack | None = None

    @hookimpl
    def configure(self, learner: Learner, stream: Stream) -> None:
        """Raise an error for settings that no group of seeds can have."""
        reason = unsupported_learner(learner)
        if reason is None and not all(e.data.repeatable for e in stream):
            reason = f"stream '{stream.name}' does not give the same samples each time"
        if reason is not None:
            raise SettingError(f"trainer.batched=true: {reason}")

    @hookimpl(trylast=True)
    def fit_experience(
        self, learner: Learner, experience: Experience, data: Data, budget: Budget
    ) -> bool:
        """Train for the budget."""
        train_batched(self.stack(learner), [FitRequest(learner, experience, data, budget)])
        return True

    def stack(self, learner: Learner) -> Stack:
        """Return the model as a stack, made when it is first needed."""
        if self._stack is None:
            self._stack = Stack([learner])
        return self._stack


class StackedAccuracy(CountsClasses):
    """Accuracy on the same stack; replaces ``accuracy``."""

    name = "accuracy"
    capabilities = Capabilities(batched_seeds=True)

    def __init__(self, loop: StackedLoop) -> None:
        super().__init__()
        self.loop = loop

    @hookimpl(trylast=True)
    def evaluate_task(self, learner: Learner, task: Task) -> dict[str, float]:
        """Return the accuracy over all samples."""
        results = batched_accuracies(self.loop.stack(learner), [task])
        accuracy, self.tables[task.name] = results[0]
        return {"accuracy": accuracy}


def stacked_plugins() -> list[Plugin]:
    """Return the plugins that replace core's loop and evaluator with ``trainer.batched``."""
    loop = StackedLoop()
    return [loop, StackedAccuracy(loop)]
