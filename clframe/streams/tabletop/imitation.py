"""Tabletop tasks as `clframe.robot` wants them: an environment, an expert and an instruction."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clframe.robot.task import RobotTask
from clframe.streams.tabletop.compiler import RobotKind
from clframe.streams.tabletop.disturbance import Disturbance, Disturber
from clframe.streams.tabletop.observation import Layout
from clframe.streams.tabletop.suites import FILES, GENERATED, TabletopTask

if TYPE_CHECKING:
    from clframe.streams.tabletop.env import TabletopEnv

LIMIT = 600
"""Steps that the expert may take, as LIBERO's evaluation."""


def robot_task(
    task: TabletopTask,
    cameras: Sequence[str] = (),
    size: int = 64,
    disturbance: Disturbance | None = None,
    layout: Layout | None = None,
    robot: RobotKind = "hand",
) -> RobotTask:
    """A task to be learned by imitation.

    Args:
        task: Of a suite.
        cameras: Whose pictures are in the observations.
        size: Pixels of a picture's side.
        disturbance: How the hand is pushed about while demonstrating; None is the default one.
        layout: Slots of the state; None takes those of the suite.
        robot: What moves things.
    """
    import mujoco

    disturbance = disturbance or Disturbance()
    # Everything that decides what demonstrations look like, since files are kept by this name.
    seen = f"-{'-'.join(cameras)}-{size}" if cameras else ""
    if robot != "hand":
        seen += f"-{robot}"
    if layout is not None:
        seen += f"-{layout.size}"
    if task.suite in (GENERATED, FILES):  # of which there are many, some with the same names
        seen += f"-{zlib.crc32(f'{task.text}{layout}'.encode()):08x}"
    return RobotTask(
        name=task.name,
        family=f"{task.suite}-mujoco{mujoco.__version__}{seen}",
        language=task.instruction,
        environment=partial(environment, task, tuple(cameras), size, layout, robot),
        expert=partial(expert, disturbance=disturbance),
        limit=LIMIT,
        facts={
            "suite": task.suite,
            "robot": robot,
            "bddl": task.text,
            "mujoco": mujoco.__version__,
            "disturbance": [disturbance.jitter, disturbance.pushes, disturbance.strength],
        },
    )


def environment(
    task: TabletopTask,
    cameras: Sequence[str] = (),
    size: int = 64,
    layout: Layout | None = None,
    robot: RobotKind = "hand",
) -> TabletopEnv:
    """The environment of a task, made where it is needed."""
    from clframe.streams.tabletop.env import TabletopEnv

    return TabletopEnv(task, cameras, size, layout=layout, robot=robot)


def expert(env: Any, disturbance: Disturbance | None = None) -> Iterator[NDArray[np.float64]]:
    """The scripted expert's actions in an environment that was just reset.

    Args:
        env: A `TabletopEnv`, or a wrapper around one.
        disturbance: How its hand is pushed about until the next reset; None leaves it alone.
    """
    from clframe.streams.tabletop.expert import Expert

    inner: TabletopEnv = getattr(env, "unwrapped", env)
    if disturbance is not None:
        # From the start state, so that the same episode is disturbed alike.
        seed = int(np.abs(inner.world.data.qpos).sum() * 1e9) % 2**32
        inner.disturber = Disturber(disturbance, seed)
    return Expert(inner.world).run()
