"""A stream of the smallest robot there is: learned by imitation in seconds, without a simulator."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl
from clframe.robot import point
from clframe.robot.stream import ImitationSettings, TaskInput, imitation_stream
from clframe.robot.task import RobotTask
from clframe.utils.settings import at_least

if TYPE_CHECKING:
    from clframe.core.registry import Registry
    from clframe.core.stream import Stream

LIMIT = 60


def point_robot(
    data_dir: Path,
    seed: int = 0,
    n_tasks: int = 4,
    demos: int = 40,
    episodes: int = 20,
    horizon: int = 40,
    window: int = 1,
    task_input: TaskInput = "one_hot",
    goals: int = 0,
    slots: int = 20,
    processes: int | None = 0,
    language_size: int | None = None,
) -> Stream:
    """A point to be moved to a place that depends on the task; no simulator needed.

    Args:
        data_dir: The data folder.
        seed: Of the run.
        n_tasks: How many tasks.
        demos: Demonstrations a task.
        episodes: Episodes that measure a task; the same ones each time.
        horizon: Steps until an episode is given up.
        window: Observations that the policy sees.
        task_input: How the policy is told the task: one_hot, language, sentence or none.
        goals: Which goals are drawn, for demonstrations and for evaluation.
        slots: Environments stepped at once.
        processes: Worker processes; 0 for this one alone, null for one a core.
        language_size: Length of an instruction's vector; null for 32, or 256 with sentence.
    """
    at_least(n_tasks, 1, "stream.n_tasks")
    tasks = [
        RobotTask(
            f"turn_{number}_of_{n_tasks}",
            "point_robot",
            f"go to the goal turned by {360 * number // n_tasks} degrees",
            functools.partial(point.PointEnvironment, number, n_tasks),
            point.expert,
            LIMIT,
        )
        for number in range(n_tasks)
    ]
    return imitation_stream(
        "point_robot",
        tasks,
        range(n_tasks),
        ImitationSettings(
            demos, episodes, horizon, window, task_input, goals, slots, processes, language_size
        ),
        data_dir,
        point.STATE_SIZE,
        point.ACTION_SIZE,
        seed=seed,
        source=f"{demos} demonstrations a task of a point that goes straight to its place",
    )


@hookimpl
def register(registry: Registry) -> None:
    """Add the stream."""
    registry.add(
        "stream",
        "point_robot",
        point_robot,
        model={"name": "policy", "hidden": [64, 64]},
        plugins={"ewc": {"weight": 100.0}},
        trainer={"max_epochs": 40, "batch_size": 32},
    )
