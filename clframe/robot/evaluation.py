"""How well a learner does a task: the share of successes, and what else is measured."""

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
        inputs: What the policy is given for windows of observations.
        episodes: How many are run, always the same ones.
        horizon: Steps until an episode is given up.
        num_envs: Environments stepped at once.
        goal_seed: The stream's choice of goals.
        num_workers: Worker processes; 0 for this one alone, None for one per core.
        measures: What is measured, first what fills the matrix: ``success``, ``steps``, and names
            in :meth:`clframe.worlds.environment.Environment.measures`.
        vectors: Makes the vectors of instructions; None where the policy is not given any.
        perturbations: Under each of these the task is measured once more.
        perturb_episodes: How many episodes that takes, the first of them; None for all.
        validation: Makes the data of held-out demonstrations, by the task's index; None without.
        stop: When fewer episodes are enough for a cell of the matrix; None runs all.
        rollouts: Where environments are stepped.
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
        """The same episodes, perturbed.

        Raises:
            SettingError: It makes no difference to this task or policy.
        """
        if self.robot.perturb is None:
            raise SettingError(
                f"task '{self.robot.name}' cannot be perturbed; the tabletop streams can"
            )
        robot, inputs = self.robot.perturb(self.robot, perturbation), self.inputs
        if robot.language != self.robot.language:
            if self.vectors is None:
                raise SettingError(
                    f"the perturbation '{perturbation.axis}' makes no difference to a policy that "
                    "is not given the instruction: set stream.task_input=sentence, or leave it out"
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
        """Names the task's environments among those that a process keeps."""
        return f"{self.robot.family}{self.robot.variant}/{self.robot.name}"

    @property
    def seeds(self) -> list[int]:
        """Of the episodes: the same for every run, learner and method."""
        return self.first_seeds(self.episodes)

    def first_seeds(self, n: int) -> list[int]:
        """Of the first so many episodes, which may be more than are run."""
        return episode_seeds(n, *seed_key(self.robot, self.goal_seed, EVALUATION))

    @property
    def identity(self) -> str:
        """A sum of what the episodes are: where it is the same, those of a number are the same.

        The environment by its family, variant and name, the key of the start states, the horizon.
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
    """How the learner acts on a task, through all that plugins make of its predictions."""
    device = learner.engine.device
    generator = torch.Generator(device=device)
    # Apart from the learner's own draws, so that measuring changes nothing about learning.
    generator.manual_seed(task.index)
    names = (STATE, *inputs.images)
    policy = learner.policy

    def act(windows: Observation, begun: NDArray[np.bool_]) -> NDArray[Any]:
        if policy.remembers and begun.any():
            policy.reset(torch.from_numpy(begun).to(device))
        raw = {name: torch.from_numpy(windows[name]).to(device) for name in names}
        number = torch.full((len(begun),), task.index, dtype=torch.long, device=device)
        x = inputs(raw, number)
        # Whichever plugin predicts, with whichever scores.
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
    """Run the task's episodes (or those of other seeds) with the learner as it is.

    Args:
        learner: Whose policy acts.
        task: The task.
        evaluation: How it is measured.
        pool: Whose workers step the environments.
        seeds: Of other episodes.
        enough: Says of the first episodes whether they are enough.
        act: The policy, where its draws go on from earlier episodes; None for a new one.
    """
    # A policy that remembers its episode does so only here, and not while it learns.
    chosen = evaluation.seeds if seeds is None else seeds

    def tell(ended: int) -> None:
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
            tell,
            enough,
        )
