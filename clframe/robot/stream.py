"""A stream of robot tasks that are learned from demonstrations."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clframe.data import TensorData
from clframe.errors import SettingError
from clframe.experience import Experience, Stream, Task
from clframe.robot import collect, demonstrations, language
from clframe.robot.demonstrations import Demonstration
from clframe.robot.evaluation import Evaluation
from clframe.robot.learner import ImitationLearner
from clframe.robot.task import RobotTask
from clframe.robot.windows import STATE, Inputs, Scaling, data_of
from clframe.settings import at_least

TaskInput = Literal["one_hot", "language", "none"]


@dataclass(frozen=True)
class ImitationSettings:
    """The settings that all streams of demonstrations share.

    Args:
        demos: Demonstrations a task.
        episodes: Episodes that measure a task; the same ones each time.
        horizon: Steps until an episode is given up.
        window: Observations that the policy sees.
        task_input: How the policy is told the task: its number as a ``one_hot`` code, its
            instruction as a vector (``language``), or not at all (``none``).
        goals: Which goals are drawn, for demonstrations and for evaluation.
        slots: Environments stepped at once.
        processes: Worker processes; 0 for this one alone, None for one a core. Results are the
            same.
    """

    demos: int = 50
    episodes: int = 20
    horizon: int = 200
    window: int = 1
    task_input: TaskInput = "one_hot"
    goals: int = 0
    slots: int = 6
    processes: int | None = None

    def __post_init__(self) -> None:
        for name, bound in (
            ("demos", 1),
            ("episodes", 1),
            ("horizon", 1),
            ("window", 1),
            ("goals", 0),
            ("slots", 1),
            ("processes", 0),
        ):
            at_least(getattr(self, name), bound, f"stream.{name}")


def imitation_stream(
    name: str,
    tasks: Sequence[RobotTask],
    order: Sequence[int],
    how: ImitationSettings,
    data_dir: Path,
    state_size: int,
    action_size: int,
    scaling: Scaling | None = None,
    seed: int = 0,
    source: str = "",
    pictures: Sequence[str] = (),
    picture_size: int = 0,
) -> Stream:
    """Put robot tasks together to a stream that is learned by imitation.

    Every task has all outputs, and which task it is is known: the scenario is ``task``. What is not
    there of the demonstrations is made when the first of them is asked for. Tasks that no
    experience teaches are measured all the same.

    Args:
        name: Of the stream.
        tasks: Columns of the matrix.
        order: The task of each experience; one may come back.
        how: The settings.
        data_dir: The data folder.
        state_size: Length of an observation's state.
        action_size: Numbers of an action.
        scaling: Of the state; None takes mean and deviation of the first experience's
            demonstrations, so that nothing is known of later tasks.
        seed: What the stream was made with.
        source: Which data this is.
        pictures: Observations that are pictures.
        picture_size: Pixels of a picture's side.
    """
    if not order or not all(0 <= number < len(tasks) for number in order):
        raise SettingError(f"stream '{name}' needs at least one task to learn")
    taught = [tasks[number] for number in dict.fromkeys(order)]

    @functools.cache
    def demos_of(number: int) -> list[Demonstration]:
        path = collect.path_of(tasks[number], data_dir, how.goals)
        if not collect.has_enough(path, how.demos):
            collect.ensure(taught, data_dir, how.demos, how.goals, how.processes)
        return demonstrations.read(path, how.demos, (STATE, *pictures))

    inputs = Inputs(
        lambda: scaling or Scaling.of(demos_of(order[0])),
        state_size,
        _task_vectors(tasks, how.task_input),
        how.window,
        pictures,
        picture_size,
    )

    @functools.cache
    def data(number: int) -> TensorData:
        return data_of(demos_of(number), number, inputs)

    outputs = tuple(range(action_size))
    columns = [
        Task(
            index,
            robot.name,
            outputs,
            info={
                "language": robot.language,
                "taught": index in order,
                "demos": how.demos,
                "evaluation": Evaluation(
                    robot,
                    inputs,
                    how.episodes,
                    how.horizon,
                    how.slots,
                    how.goals,
                    how.processes,
                ),
            },
        )
        for index, robot in enumerate(tasks)
    ]
    rounds = _rounds(order)
    experiences = [
        Experience(
            position,
            columns[number].name
            if rounds[position] == 1
            else f"{columns[number].name} ({rounds[position]})",
            (columns[number],),
            functools.partial(data, number),
            {"language": tasks[number].language},
        )
        for position, number in enumerate(order)
    ]
    return Stream(
        name,
        "task",
        experiences,
        columns,
        (inputs.size,),
        action_size,
        source,
        seed,
        learner=ImitationLearner,
    )


def _task_vectors(tasks: Sequence[RobotTask], kind: TaskInput) -> NDArray[np.float32]:
    if kind == "one_hot":
        return np.eye(len(tasks), dtype=np.float32)
    if kind == "language":
        return np.stack([language.embed(task.language) for task in tasks])
    return np.zeros((len(tasks), 0), np.float32)


def _rounds(order: Sequence[int]) -> list[int]:
    """How often each experience's task has come up to then.

    >>> _rounds([0, 1, 0])
    [1, 1, 2]
    """
    return [list(order[: place + 1]).count(number) for place, number in enumerate(order)]
