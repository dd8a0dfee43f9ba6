"""Evaluate a learner on a robot task: its success rate and other measures."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from clframe.core import hooks
from clframe.core.stream import TaskEvaluation
from clframe.errors import SettingError
from clframe.robot.episodes import Act, Outcome, run_episodes
from clframe.robot.observation_windows import STATE, ObservationTransform
from clframe.robot.sequences import SequenceInputs
from clframe.robot.stopping import StopRule
from clframe.robot.task import EVALUATION, Observation, RobotTask, episode_seeds, seed_key
from clframe.robot.workers import RolloutPlace
from clframe.worlds.perturbation import Perturbation

MEASURES = ("success", "steps")

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Task
    from clframe.data.dataset import Data
    from clframe.utils.processes import WorkerPool


@dataclass(frozen=True)
class Evaluation(TaskEvaluation):
    """The episodes that evaluate a task; ``Task.evaluation`` of robot tasks.

    Args:
        robot: The task.
        inputs: The policy's inputs, made from windows of observations.
        episodes: Number of episodes, always the same ones.
        horizon: Steps after which an episode ends.
        num_envs: Environments stepped at the same time.
        goal_seed: The seed of the stream's goals.
        num_workers: Worker processes; 0 uses only this process, None one per core.
        measures: Names of the measures, the first fills the matrix: ``success``, ``steps``, and
            those of :meth:`clframe.worlds.environment.Environment.measures`.
        vectors: Makes instruction vectors; None if the policy does not receive any.
        perturbations: Perturbations under which the task is evaluated additionally.
        perturb_episodes: Episodes per perturbation, the first of the task's own; None for all.
        validation: Returns the data of held-out demonstrations by task index; None if there are
            none.
        stop: When fewer episodes suffice for a cell of the matrix; None runs all.
        rollouts: Where the environments run.
    """

    robot: RobotTask
    inputs: ObservationTransform | SequenceInputs
    episodes: int = 20
    horizon: int = 200
    num_envs: int = 6
    goal_seed: int = 0
    num_workers: int | None = None
    measures: tuple[str, ...] = MEASURES
    vectors: Callable[[Sequence[str]], NDArray[np.float32]] | None = None
    perturbations: tuple[Perturbation, ...] = ()
    perturb_episodes: int | None = None
    validation: Callable[[int], Data] | None = None
    stop: StopRule | None = None
    rollouts: RolloutPlace = "local"

    def under(self, perturbation: Perturbation) -> Evaluation:
        """Return the evaluation with its episodes perturbed.

        Raises:
            SettingError: The perturbation has no effect on this task or policy.
        """
        if self.robot.perturb is None:
            raise SettingError(
                f"task '{self.robot.name}' cannot be perturbed; only tabletop tasks can"
            )
        robot, inputs = self.robot.perturb(self.robot, perturbation), self.inputs
        if robot.language != self.robot.language:
            if self.vectors is None:
                raise SettingError(
                    f"the perturbation '{perturbation.axis}' has no effect on a policy that does "
                    "not receive the instruction; set stream.task_input=sentence, or leave it out"
                )
            inputs = inputs.with_instruction(self.vectors([robot.language])[0])
        return dataclasses.replace(
            self,
            robot=robot,
            inputs=inputs,
            episodes=self.perturb_episodes or self.episodes,
            perturbations=(),
            stop=None,
        )

    @property
    def key(self) -> str:
        """The key of the task's environments in a worker process."""
        return f"{self.robot.family}{self.robot.variant}/{self.robot.name}"

    @property
    def seeds(self) -> list[int]:
        """The episodes' seeds: the same for every run, learner and method."""
        return self.first_seeds(self.episodes)

    def first_seeds(self, n: int) -> list[int]:
        """Return the seeds of the first n episodes; n may exceed the number that are run."""
        return episode_seeds(n, *seed_key(self.robot, self.goal_seed, EVALUATION))

    @property
    def identity(self) -> str:
        """A hash of the episodes: if it is equal, episodes of the same number are equal.

        It covers the environment (family, variant, name), the start states and the horizon.
        """
        parts = (self.key, *seed_key(self.robot, self.goal_seed, EVALUATION), self.horizon)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def episodes_of(task: Task) -> Evaluation:
    """Return the episodes that evaluate a robot task.

    Raises:
        SettingError: The task has no environment.
    """
    if not isinstance(task.evaluation, Evaluation):
        raise SettingError(f"task '{task.name}' has no environment to act in")
    return task.evaluation


def inputs_of(task: Task) -> ObservationTransform:
    """Return what a policy of single observations sees in a robot task."""
    inputs = episodes_of(task).inputs
    if not isinstance(inputs, ObservationTransform):
        raise SettingError(f"the policy of task '{task.name}' reads sequences, not observations")
    return inputs


def policy_of(learner: Learner, task: Task, inputs: ObservationTransform | SequenceInputs) -> Act:
    """Return the learner's policy on a task, including everything plugins add to predictions."""
    device = learner.engine.device
    generator = torch.Generator(device=device)
    # A generator of its own, so that evaluation does not change the learner's random numbers.
    generator.manual_seed(task.index)
    names = (STATE, *inputs.images)
    policy = learner.policy

    def act(windows: Observation, begun: NDArray[np.bool_]) -> NDArray[Any]:
        if policy.remembers and begun.any():
            policy.reset(torch.from_numpy(begun).to(device))
        raw = {name: torch.from_numpy(windows[name]).to(device) for name in names}
        number = torch.full((len(begun),), task.index, dtype=torch.long, device=device)
        x = inputs(raw, number)
        # Plugins may replace the prediction or its scores.
        outputs = learner.possible(hooks.predict(learner, x, task), x)
        chosen = learner.action_of(outputs, generator)
        if chosen.is_floating_point():
            chosen = chosen.float()
        actions: NDArray[Any] = chosen.cpu().numpy()
        return actions

    return act


def evaluate(
    learner: Learner,
    task: Task,
    evaluation: Evaluation,
    pool: WorkerPool,
    seeds: Sequence[int] | None = None,
    enough: Callable[[Sequence[Outcome]], bool] | None = None,
    act: Act | None = None,
) -> list[Outcome]:
    """Run the task's episodes (or other seeds) with the current learner.

    Args:
        learner: The learner that acts.
        task: The task.
        evaluation: The task's evaluation.
        pool: The workers that step the environments.
        seeds: Seeds of other episodes; None for the evaluation's own.
        enough: Decides from the first episodes whether they suffice.
        act: The policy, if its random numbers continue from earlier episodes; None for a new one.
    """
    # A policy with memory uses it only here, and not during training.
    chosen = evaluation.seeds if seeds is None else seeds

    def report_progress(ended: int) -> None:
        hooks.on_progress(learner, "episodes", ended, len(chosen), task.name)

    with learner.engine.autocast(), learner.policy.acting():
        return run_episodes(
            pool,
            evaluation.key,
            evaluation.robot.environment,
            chosen,
            act or policy_of(learner, task, evaluation.inputs),
            evaluation.horizon,
            evaluation.num_envs,
            evaluation.inputs.window,
            report_progress,
            enough,
        )
