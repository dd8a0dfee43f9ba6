"""Tabletop tasks as `clframe.robot` wants them: an environment, an expert and an instruction."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clframe.robot.perturbation import Perturbation
from clframe.robot.task import RobotTask
from clframe.streams.tabletop.disturbance import Disturbance, Disturber
from clframe.streams.tabletop.observation import Layout
from clframe.streams.tabletop.suites import FILES, GENERATED, TabletopTask
from clframe.streams.tabletop.wording import paraphrase

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
) -> RobotTask:
    """A task to be learned by imitation.

    Args:
        task: Of a suite.
        cameras: Whose pictures are in the observations.
        size: Pixels of a picture's side.
        disturbance: How the hand is pushed about while demonstrating; None is the default one.
        layout: Slots of the state; None takes those of the suite.
    """
    import mujoco

    disturbance = disturbance or Disturbance()
    # Everything that decides what demonstrations look like, since files are kept by this name.
    seen = f"-{'-'.join(cameras)}-{size}" if cameras else ""
    if layout is not None:
        seen += f"-{layout.size}"
    if task.suite in (GENERATED, FILES):  # of which there are many, some with the same names
        seen += f"-{zlib.crc32(f'{task.text}{layout}'.encode()):08x}"
    return RobotTask(
        name=task.name,
        family=f"{task.suite}-mujoco{mujoco.__version__}{seen}",
        language=task.instruction,
        environment=partial(environment, task, tuple(cameras), size, layout),
        expert=partial(expert, disturbance=disturbance),
        limit=LIMIT,
        facts={
            "suite": task.suite,
            "bddl": task.text,
            "mujoco": mujoco.__version__,
            "disturbance": [disturbance.jitter, disturbance.pushes, disturbance.strength],
        },
        perturb=partial(perturbed, cameras=tuple(cameras)),
    )


def perturbed(
    robot: RobotTask, perturbation: Perturbation, cameras: Sequence[str] = ()
) -> RobotTask:
    """A task whose environment is perturbed; see `clframe.streams.tabletop.perturb`.

    Raises:
        SettingError: There is no such axis, or it would make no difference.
    """
    from clframe.streams.tabletop.perturb import check

    check(perturbation, cameras)
    if perturbation.level == 0:
        return robot
    made: Any = robot.environment
    before = getattr(made, "keywords", {}).get("perturbations", ())
    wording = perturbation.axis == "wording"
    return dataclasses.replace(
        robot,
        environment=partial(made, perturbations=(*before, perturbation)),
        language=paraphrase(robot.language, perturbation.level) if wording else robot.language,
        variant=f"{robot.variant}+{perturbation}",
    )


def environment(
    task: TabletopTask,
    cameras: Sequence[str] = (),
    size: int = 64,
    layout: Layout | None = None,
    perturbations: Sequence[Perturbation] = (),
) -> TabletopEnv:
    """The environment of a task, made where it is needed."""
    from clframe.streams.tabletop.env import TabletopEnv

    return TabletopEnv(task, cameras, size, layout=layout, perturbations=perturbations)


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
