"""A group of seeds: every seed is a run of its own, in a thread, and they meet to train.

The runs are those of :func:`clframe.run.run`, with their own learners, plugins, folders and random
generators. Only two plugins are replaced: the loop and the evaluator wait for the other seeds, and
the last to arrive trains or evaluates the stack of all models.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clframe.core.plugin import Plugin, Plugins
from clframe.hookspecs import hookimpl
from clframe.run import run
from clframe.sweep.rendezvous import Meeting
from clframe.training.batched.loop import Lesson, accuracies_together, train_together
from clframe.training.batched.stack import Stack, obstacle

if TYPE_CHECKING:
    from clframe.api import Prepared
    from clframe.core.learner import Learner
    from clframe.core.results import Result
    from clframe.core.stream import Experience, Task
    from clframe.data.dataset import Data
    from clframe.training.loop import Budget


def why_not(prepared: Sequence[Prepared]) -> str | None:
    """Why these runs cannot be trained as one, or None."""
    first = prepared[0].learner
    for plugin in first.plugins.ordered:
        if not plugin.supports_batched_seeds:
            return f"plugin '{plugin.name}' cannot be batched"
    if first.engine.settings.precision not in ("32-true", "32") or first.engine.world_size > 1:
        return "mixed precision and several processes cannot be batched"
    if first.engine.settings.compile or first.engine.settings.cuda_graphs:
        return "a compiled model cannot be batched"
    for one in prepared:
        sizes = [len(experience.data) for experience in one.stream]
        if not all(experience.data.repeatable for experience in one.stream):
            return f"stream '{one.stream.name}' does not give the same samples each time"
        if sizes != [len(experience.data) for experience in prepared[0].stream]:
            return "the seeds' experiences are not equal in size"
    return obstacle(first)


def run_together(prepared: Sequence[Prepared]) -> list[Result]:
    """Run all seeds in lock-step and give their results in order."""
    group = _Group(prepared)
    threads = [
        threading.Thread(target=group.run_seed, args=(seat,), name=f"seed-{seat}", daemon=True)
        for seat in range(len(prepared))
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:  # Ctrl-C comes to this thread; the seeds stop at their next meeting
        group.meeting.leave()
        raise
    if group.failure is not None:
        raise group.failure
    return [group.results[seat] for seat in range(len(prepared))]


class _Group:
    """What the threads of a group share."""

    def __init__(self, prepared: Sequence[Prepared]) -> None:
        self.prepared = list(prepared)
        self.meeting = Meeting(len(prepared))
        self.results: dict[int, Result] = {}
        self.failure: BaseException | None = None
        self._stack: Stack | None = None
        for seat, one in enumerate(self.prepared):
            kept = [p for p in one.learner.plugins.ordered if p.name not in ("loop", "accuracy")]
            one.learner.plugins = Plugins([*kept, GroupLoop(self, seat), GroupAccuracy(self, seat)])

    def run_seed(self, seat: int) -> None:
        """One seed's run; the first failure sends all others home."""
        learner, stream, strategy, folder = self.prepared[seat]
        try:
            with self.meeting.turn:
                self.results[seat] = run(learner, stream, strategy, folder)
        except threading.BrokenBarrierError:
            pass  # another seed has failed and says why
        except BaseException as error:
            if self.failure is None:
                self.failure = error
            self.meeting.leave()

    @property
    def stack(self) -> Stack:
        """The stack of all models, made when the first of them is needed."""
        if self._stack is None:
            self._stack = Stack([one.learner for one in self.prepared])
        return self._stack

    def train(self, lessons: list[Lesson]) -> list[bool]:
        """Train all seeds."""
        train_together(self.stack, lessons)
        return [True] * len(lessons)

    def accuracies(self, tasks: list[Task]) -> list[float]:
        """Evaluate all seeds."""
        return accuracies_together(self.stack, tasks)


class GroupLoop(Plugin):
    """Learns an experience together with the other seeds."""

    name = "loop"
    supports_batched_seeds = True

    def __init__(self, group: _Group, seat: int) -> None:
        self.group = group
        self.seat = seat

    @hookimpl(trylast=True)
    def fit_experience(
        self, learner: Learner, experience: Experience, data: Data, budget: Budget
    ) -> bool:
        """Train for the budget."""
        lesson = Lesson(learner, experience, data, budget)
        return bool(self.group.meeting.join(self.seat, lesson, self.group.train))


class GroupAccuracy(Plugin):
    """Measures accuracy together with the other seeds."""

    name = "accuracy"
    supports_batched_seeds = True

    def __init__(self, group: _Group, seat: int) -> None:
        self.group = group
        self.seat = seat

    @hookimpl(trylast=True)
    def evaluate_task(self, task: Task) -> dict[str, float]:
        """Accuracy over all samples."""
        return {"accuracy": self.group.meeting.join(self.seat, task, self.group.accuracies)}
