"""Continual evaluation: measure all tasks seen so far every few training steps."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch

from clframe.core import hooks
from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.errors import SettingError
from clframe.evaluation.evaluation_mode import evaluation_mode
from clframe.hookspecs import hookimpl
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.learner import Learner
    from clframe.core.results import Result
    from clframe.core.stream import Stream, Task

_DIGITS = 6
"""Digits of a stored value; metrics are computed from the stored values."""


class ContinualEvaluation(Plugin):
    """Continual evaluation of every task seen so far, every few steps and after each experience.

    De Lange et al. (2023) show with it that methods which end an experience with little forgetting
    lose much of the past in its first steps and then regain it: the stability gap. See
    :mod:`clframe.metrics.measured_metrics` (family ``continual``) for the metrics of the curves.

    Tasks seen are those of the experiences learned before and of the current one. Training goes on
    as if nothing had been measured (:func:`clframe.evaluation.evaluation_mode.evaluation_mode`).

    Args:
        every_n_steps: Interval; steps count from the beginning of the run.
        samples: Samples of each task, drawn once with the run's seed; None for all.
    """

    name = "continual_evaluation"
    paper = (
        "De Lange et al., Continual evaluation for lifelong learning: Identifying the stability "
        "gap, 2023"
    )
    capabilities = Capabilities(evaluator=True)
    state: ClassVar[tuple[str, ...]] = ("points",)

    def __init__(self, every_n_steps: int = 1, samples: int | None = None) -> None:
        at_least(every_n_steps, 1, "evaluation.evaluate_every_n_steps")
        at_least(samples, 1, "evaluation.evaluate_samples")
        self.every_n_steps = every_n_steps
        self.samples = samples
        self.points: dict[str, dict[str, Any]] = {}
        """By experience: the steps of the measurements, and the values of each task."""
        self._subsets: dict[str, Task] = {}

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Return the plugin only if the run is evaluated every few steps."""
        settings = context.evaluation
        every = settings.evaluate_every_n_steps
        return None if every is None else cls(every, settings.evaluate_samples)

    @hookimpl
    def configure(self, stream: Stream) -> None:
        """Reject a number of samples if tasks have none."""
        if self.samples is not None:
            for task in stream.tasks:
                if task.load is None:
                    raise SettingError(
                        f"evaluation.evaluate_samples={self.samples} draws from evaluation data, "
                        f"and task '{task.name}' of stream '{stream.name}' is an environment: "
                        "leave it out"
                    )

    @hookimpl(trylast=True)
    def after_step(self, learner: Learner) -> None:
        """Measure if a measurement is due."""
        step = learner.global_step + 1  # the current step is not counted yet
        if step % self.every_n_steps == 0:
            self.measure(learner, step)

    @hookimpl(trylast=True)
    def after_experience(self, learner: Learner) -> None:
        """Measure the end of each experience, after any number of steps."""
        self.measure(learner, learner.global_steps)

    def measure(self, learner: Learner, step: int) -> None:
        """Add a point to the curves of the current experience."""
        assert learner.experience is not None
        tasks = [self._sampled(task, learner.seed) for task in seen_tasks(learner)]
        with evaluation_mode(learner):
            results = hooks.evaluate_tasks(learner, tasks)
            for task in tasks:
                if task.name not in results:
                    results[task.name] = hooks.evaluate_task(learner, task)
        values = {
            task.name: round(float(next(iter(results[task.name].values()))), _DIGITS)
            for task in tasks
        }
        curves = self.points.setdefault(learner.experience.name, {"steps": [], "tasks": {}})
        if curves["steps"] and curves["steps"][-1] == step:
            # The end of an experience may differ from its last step (pruning, averaging).
            curves["steps"].pop()
            for line in curves["tasks"].values():
                line.pop()
        curves["steps"].append(step)
        for name, value in values.items():
            curves["tasks"].setdefault(name, []).append(value)
        learner.plugins.hook.on_metric(learner=learner, name=self.name, step=step, values=values)

    def _sampled(self, task: Task, seed: int) -> Task:
        """Return the task with the samples that are measured."""
        if self.samples is None:
            return task
        if task.name not in self._subsets:
            data = task.data
            generator = torch.Generator().manual_seed(seed * 1_000_003 + task.index)
            chosen = torch.randperm(len(data), generator=generator)[: self.samples]
            subset = data.subset(chosen.sort().values)
            self._subsets[task.name] = dataclasses.replace(task, load=lambda: subset)
        return self._subsets[task.name]

    @hookimpl
    def metrics(self, result: Result) -> None:
        """Store the curves before metrics are computed from them."""
        if self.points:
            result.measured[self.name] = {
                "measure": result.matrix.measure,
                "every_n_steps": self.every_n_steps,
                "samples": self.samples,
                "experiences": self.points,
            }


def seen_tasks(learner: Learner) -> list[Task]:
    """Return the tasks of the experiences learned so far and of the current one, in order."""
    current = () if learner.experience is None else (learner.experience,)
    names = {task.name for experience in (*learner.seen, *current) for task in experience.tasks}
    return [task for task in learner.stream.tasks if task.name in names]
