"""LIBERO's own demonstration files, as observations of the stream's policies."""

from __future__ import annotations

from collections.abc import Sequence

from clframe.errors import DataError
from clframe.robot import demonstrations
from clframe.robot.demonstrations import Demonstration
from clframe.robot.task import Observation
from clframe.worlds.libero.paths import Places
from clframe.worlds.libero.state_vector import Layout, positions_of, shrunk
from clframe.worlds.libero.tasks import LiberoTask

_PROPRIOCEPTION = ("gripper_states", "joint_states", "ee_pos")


def check_all(tasks: Sequence[LiberoTask], places: Places, n: int) -> None:
    """Check that every task's demonstrations exist before training begins.

    Raises:
        DataError: Some are missing, or a file has too few.
    """
    absent = [task for task in tasks if not places.demonstration_file(task).is_file()]
    if absent:
        path = places.demonstration_file(absent[0])
        more = f" (and those of {len(absent) - 1} more tasks)" if len(absent) > 1 else ""
        raise DataError(
            f"the demonstrations of '{absent[0].name}'{more} are missing; put LIBERO's dataset of "
            f"{absent[0].suite} at '{path.parent}', this file as '{path.name}', or set "
            "stream.demonstrations=DIR"
        )
    for task in tasks:
        path = places.demonstration_file(task)
        count = demonstrations.read_info(path).demos
        if count < n:
            raise DataError(
                f"'{path}' holds {count} demonstrations, but stream.num_demos={n} are needed"
            )


def read(
    task: LiberoTask, places: Places, n: int, layout: Layout, cameras: Sequence[str], size: int
) -> list[Demonstration]:
    """Return the first n demonstrations, with ``state`` and the cameras' images.

    LIBERO's files hold the observation after each action; the shared reader pairs each action with
    the observation before it.
    """
    path = places.demonstration_file(task)
    names = [f"{camera}_rgb" for camera in cameras]
    demos = []
    for number, demo in enumerate(demonstrations.read(path, n, (*_PROPRIOCEPTION, *names))):
        if demo.states.ndim != 2 or demo.states.shape[1] != task.state_size:
            raise DataError(
                f"'{path}' data/demo_{number}/states must have {task.state_size} numbers per step "
                f"for this task, has the shape {list(demo.states.shape)}"
            )
        gripper, joints, hand = (demo.observations[name] for name in _PROPRIOCEPTION)
        positions = positions_of(demo.states, task)
        observations: Observation = {"state": layout.state(task, gripper, joints, hand, positions)}
        for name in names:
            observations[name] = shrunk(demo.observations[name], size, f"'{path}'")
        demos.append(Demonstration(demo.actions, observations, demo.states, demo.seed))
    return demos
