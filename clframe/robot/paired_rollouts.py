"""Run two policies on the same episodes in turns until it is decided which is better."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from clframe.core import hooks
from clframe.errors import SettingError
from clframe.evaluation.episodes import CellOutcomes
from clframe.robot.episodes import Act, Outcome
from clframe.robot.evaluation import Evaluation, evaluate, policy_of
from clframe.robot.workers import environment_pool

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Task
    from clframe.utils.processes import WorkerPool


@dataclass
class Policy:
    """One of the two policies.

    Args:
        learner: The policy's learner.
        name: The name of its run, for messages.
    """

    learner: Learner
    name: str
    found: dict[str, list[Outcome]] = field(default_factory=dict)
    """Outcomes of its episodes so far, by task."""
    acts: dict[str, Act] = field(default_factory=dict)
    """How it acts on each task; its random numbers continue from block to block."""

    @property
    def tasks(self) -> dict[str, tuple[Task, Evaluation]]:
        """The tasks with an environment, and their evaluation."""
        return {
            task.name: (task, task.evaluation)
            for task in self.learner.stream.tasks
            if isinstance(task.evaluation, Evaluation)
        }

    def run(self, name: str, seeds: Sequence[int], pool: WorkerPool) -> None:
        """Run further episodes of a task."""
        task, evaluation = self.tasks[name]
        with hooks.in_task(self.learner, task):
            if name not in self.acts:
                self.acts[name] = policy_of(self.learner, task, evaluation.inputs)
            self.found.setdefault(name, []).extend(
                evaluate(self.learner, task, evaluation, pool, seeds, act=self.acts[name])
            )

    def outcomes(self, name: str) -> CellOutcomes:
        """Return the outcomes of a task's episodes so far."""
        evaluation, outcomes = self.tasks[name][1], self.found[name]
        names = [measure for measure in evaluation.measures if measure not in ("success", "steps")]
        measures = {measure: tuple(o.measures[measure] for o in outcomes) for measure in names}
        return CellOutcomes(evaluation.identity, tuple(o.success for o in outcomes), measures)


def common_tasks(first: Policy, second: Policy) -> list[str]:
    """Return the tasks that both policies can run on the same episodes.

    Raises:
        SettingError: There are none, or a task's episodes differ.
    """
    names = [name for name in first.tasks if name in second.tasks]
    if not names:
        for policy in (first, second):
            if not policy.tasks:
                stream = policy.learner.stream.name
                raise SettingError(
                    f"run '{policy.name}' learned '{stream}', which has no environments"
                )
        raise SettingError(f"runs '{first.name}' and '{second.name}' have no task in common")
    for name in names:
        if first.tasks[name][1].identity != second.tasks[name][1].identity:
            raise SettingError(
                f"the episodes of task '{name}' differ between runs '{first.name}' and "
                f"'{second.name}' (another environment, start states or horizon)"
            )
    return names


def run_in_turns(
    first: Policy, second: Policy, most: int, decided: Callable[[], bool] | None = None
) -> None:
    """Run both policies on the same episodes, in rounds of a few episodes per task.

    A round has about as many episodes as there are environments, so that all tasks progress
    equally.

    Args:
        first: A policy.
        second: The other policy.
        most: Largest number of episodes per task.
        decided: Returns after each round whether to stop.
    """
    names = common_tasks(first, second)
    evaluation = first.tasks[names[0]][1]
    size = max(1, -(-evaluation.num_envs // len(names)))
    pool = environment_pool(evaluation.num_workers, evaluation.num_envs, evaluation.rollouts)
    for policy in (first, second):
        policy.learner.eval()
    try:
        with torch.inference_mode():
            for start in range(0, most, size):
                for name in names:
                    seeds = first.tasks[name][1].first_seeds(min(start + size, most))[start:]
                    for policy in (first, second):
                        policy.run(name, seeds, pool)
                if decided is not None and decided():
                    return
    finally:
        pool.close()
