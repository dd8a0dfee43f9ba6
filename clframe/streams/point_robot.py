"""A stream of the smallest possible robot: imitation in seconds, without a simulator."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl
from clframe.robot.stream import ImitationSettings, imitation_stream
from clframe.robot.task import RobotTask
from clframe.utils.setting_checks import at_least
from clframe.worlds import point_robot as world

if TYPE_CHECKING:
    from clframe.core.registry import Registry
    from clframe.core.stream import Stream

LIMIT = 60


def point_robot(
    data_dir: Path,
    seed: int = 0,
    n_tasks: int = 4,
    imitation: ImitationSettings = ImitationSettings(
        num_demos=40, horizon=40, num_envs=20, num_workers=0
    ),
) -> Stream:
    """A point to move to a position that depends on the task; needs no simulator.

    Args:
        data_dir: The data folder.
        seed: The run's seed.
        n_tasks: Number of tasks.
        imitation: The settings that all robot streams share.
    """
    at_least(n_tasks, 1, "stream.n_tasks")
    tasks = [
        RobotTask(
            f"turn_{number}_of_{n_tasks}",
            "point_robot",
            f"go to the goal turned by {360 * number // n_tasks} degrees",
            functools.partial(world.PointEnvironment, number, n_tasks),
            world.expert,
            LIMIT,
        )
        for number in range(n_tasks)
    ]
    return imitation_stream(
        "point_robot",
        tasks,
        range(n_tasks),
        imitation,
        data_dir,
        world.STATE_SIZE,
        world.ACTION_SIZE,
        seed=seed,
        source=f"{imitation.num_demos} demonstrations per task of a point that goes straight to "
        "its place",
    )


@hookimpl
def register(registry: Registry) -> None:
    """Register the stream."""
    registry.add("stream", "point_robot", point_robot, family="point_robot")
