"""A group of seeds: every seed is a run in its own thread, and all train together.

The runs are those of :func:`clframe.run.run`, with their own learners, plugins, folders and random
generators. Two built-in plugins are replaced: the loop and the evaluator wait for the other seeds,
and the last to arrive trains or evaluates the stack of all models.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from clframe.build import Built, build
from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.evaluation.class_accuracy import CountsClasses
from clframe.hookspecs import hookimpl
from clframe.run import run
from clframe.sweep.rendezvous import Rendezvous
from clframe.training.batched.batched_loop import train_batched
from clframe.training.batched.evaluation import batched_accuracies
from clframe.training.batched.stack import Stack, unsupported_learner
from clframe.training.loop import FitRequest

if TYPE_CHECKING:
    from clframe.config.run_config import RunConfig
    from clframe.core.learner import Learner
    from clframe.core.results import Result
    from clframe.core.stream import Experience, Task
    from clframe.core.trainer import Budget
    from clframe.data.dataset import Data


def unsupported_reason(runs: Sequence[Built]) -> str | None:
    """Return why these runs cannot be trained as one model, or None."""
    reason = unsupported_learner(runs[0].learner)
    if reason is not None:
        return reason
    for built in runs:
        sizes = [len(experience.data) for experience in built.stream]
        if not all(experience.data.repeatable for experience in built.stream):
            return f"stream '{built.stream.name}' does not give the same samples each time"
        if sizes != [len(experience.data) for experience in runs[0].stream]:
            return "the seeds' experiences are not equal in size"
    return None


class SeedGroup:
    """Runs that differ in their seed, trained in lock-step.

    Args:
        configs: One config per seed.
    """

    def __init__(self, configs: Sequence[RunConfig]) -> None:
        self.rendezvous = Rendezvous(len(configs))
        self.runs = [
            build(config, [BatchedLoop(self, index), BatchedAccuracy(self, index)])
            for index, config in enumerate(configs)
        ]
        self.results: dict[int, Result] = {}
        self.failure: BaseException | None = None
        self._stack: Stack | None = None

    def run(self) -> list[Result]:
        """Run all seeds and return their results in order."""
        threads = [
            threading.Thread(
                target=self._run_seed, args=(index,), name=f"seed-{index}", daemon=True
            )
            for index in range(len(self.runs))
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:  # Ctrl-C reaches this thread; the seeds stop at their next meeting.
            self.rendezvous.abort()
            raise
        if self.failure is not None:
            raise self.failure
        return [self.results[index] for index in range(len(self.runs))]

    def _run_seed(self, index: int) -> None:
        """Run one seed; the first failure ends all others."""
        built = self.runs[index]
        try:
            with self.rendezvous.lock:
                self.results[index] = run(built.learner, built.stream, built.strategy, built.folder)
        except threading.BrokenBarrierError:
            pass  # Another seed has failed and reports why.
        except BaseException as error:
            if self.failure is None:
                self.failure = error
            self.rendezvous.abort()

    @property
    def stack(self) -> Stack:
        """The stack of all models, made on first use."""
        if self._stack is None:
            self._stack = Stack([built.learner for built in self.runs])
        return self._stack

    def train(self, requests: list[FitRequest]) -> list[bool]:
        """Train all seeds."""
        train_batched(self.stack, requests)
        return [True] * len(requests)

    def accuracies(self, tasks: list[Task]) -> list[tuple[float, Tensor]]:
        """Evaluate all seeds."""
        return batched_accuracies(self.stack, tasks)


class BatchedLoop(Plugin):
    """Training of an experience together with the other seeds; replaces ``loop``."""

    name = "loop"
    capabilities = Capabilities(batched_seeds=True)

    def __init__(self, group: SeedGroup, index: int) -> None:
        self.group = group
        self.index = index

    @hookimpl(trylast=True)
    def fit_experience(
        self, learner: Learner, experience: Experience, data: Data, budget: Budget
    ) -> bool:
        """Train for the budget."""
        request = FitRequest(learner, experience, data, budget)
        return bool(self.group.rendezvous.join(self.index, request, self.group.train))


class BatchedAccuracy(CountsClasses):
    """Accuracy measured together with the other seeds; replaces ``accuracy``."""

    name = "accuracy"
    capabilities = Capabilities(batched_seeds=True)

    def __init__(self, group: SeedGroup, index: int) -> None:
        super().__init__()
        self.group = group
        self.index = index

    @hookimpl(trylast=True)
    def evaluate_task(self, task: Task) -> dict[str, float]:
        """Return the accuracy over all samples."""
        answer = self.group.rendezvous.join(self.index, task, self.group.accuracies)
        accuracy, self.tables[task.name] = answer
        return {"accuracy": accuracy}
