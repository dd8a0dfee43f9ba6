"""Tabletop tasks for `clframe.robot`: an environment, an expert and an instruction."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clframe.robot.collect import AFTER_SUCCESS
from clframe.robot.task import RetryingExpert, RobotTask
from clframe.worlds.perturbation import Perturbation
from clframe.worlds.tabletop.compiler import RobotKind
from clframe.worlds.tabletop.disturbance import Disturbance, Disturber
from clframe.worlds.tabletop.gripper import HAND
from clframe.worlds.tabletop.observation import Layout
from clframe.worlds.tabletop.suites import FILES, GENERATED, TabletopTask
from clframe.worlds.tabletop.wording import paraphrase

if TYPE_CHECKING:
    from clframe.worlds.tabletop.env import TabletopEnv
    from clframe.worlds.tabletop.expert import Action

LIMIT = 600
"""Largest number of steps of the expert, as in LIBERO's evaluation."""
START_NOISE = 0.02
"""Default offset of the hand's start in meters, in demonstrations and evaluation."""
_VERSION = 2
"""Version of demonstrations: raise it when expert, predicates or recording change."""


def robot_task(
    task: TabletopTask,
    cameras: Sequence[str] = (),
    size: int = 64,
    disturbance: Disturbance | None = None,
    layout: Layout | None = None,
    depth: bool = False,
    start_noise: float = START_NOISE,
    robot: RobotKind = "arm",
) -> RobotTask:
    """Return a task for imitation learning.

    Args:
        task: The task of a suite.
        cameras: Cameras whose images are in the observations.
        size: Side of an image in pixels.
        disturbance: How the hand is disturbed while demonstrating; None is the default.
        layout: Slots of the state; None uses those of the suite.
        depth: Whether the cameras record depth too.
        start_noise: Largest offset of the hand's start, in meters.
        robot: The robot that moves objects.
    """
    import mujoco

    disturbance = disturbance or Disturbance()
    # Files are kept under this name, so it includes everything that determines their content.
    variant = f"-{'-'.join(cameras)}-{size}" if cameras else ""
    if cameras and depth:
        variant += "-depth"
    if start_noise != START_NOISE:
        variant += f"-start{start_noise:g}"
    if robot != "hand":
        variant += f"-{robot}"
    if layout is not None:
        variant += f"-{layout.size}"
    if task.suite in (GENERATED, FILES):  # different tasks may share a name
        variant += f"-{zlib.crc32(f'{task.text}{layout}'.encode()):08x}"
    make = partial(environment, task, tuple(cameras), size, layout, depth, start_noise, robot)
    return RobotTask(
        name=task.name,
        family=f"{task.suite}-v{_VERSION}-mujoco{mujoco.__version__}{variant}",
        language=task.instruction,
        environment=make,
        expert=partial(expert, disturbance=disturbance),
        limit=LIMIT,
        facts={
            "suite": task.suite,
            "robot": robot,
            "bddl": task.text,
            "mujoco": mujoco.__version__,
            "disturbance": [disturbance.jitter, disturbance.pushes, disturbance.strength],
            "start_noise": start_noise,
        },
        recording=partial(make, terminate_on_success=False),
        finishes=True,
        perturb=partial(perturbed, cameras=tuple(cameras)),
    )


def perturbed(
    robot: RobotTask, perturbation: Perturbation, cameras: Sequence[str] = ()
) -> RobotTask:
    """Return a task with a perturbed environment; see `clframe.worlds.tabletop.perturb`.

    Raises:
        SettingError: There is no such axis, or it has no effect.
    """
    from clframe.worlds.tabletop.perturb import check

    check(perturbation, cameras)
    if perturbation.level == 0:
        return robot
    make: Any = robot.environment
    before = getattr(make, "keywords", {}).get("perturbations", ())
    wording = perturbation.axis == "wording"
    return dataclasses.replace(
        robot,
        environment=partial(make, perturbations=(*before, perturbation)),
        language=paraphrase(robot.language, perturbation.level) if wording else robot.language,
        variant=f"{robot.variant}+{perturbation}",
    )


def environment(
    task: TabletopTask,
    cameras: Sequence[str] = (),
    size: int = 64,
    layout: Layout | None = None,
    depth: bool = False,
    start_noise: float = 0.0,
    robot: RobotKind = "arm",
    terminate_on_success: bool = True,
    perturbations: Sequence[Perturbation] = (),
) -> TabletopEnv:
    """Return the environment of a task, created in the calling process."""
    from clframe.worlds.tabletop.env import TabletopEnv

    return TabletopEnv(
        task,
        cameras,
        size,
        layout=layout,
        depth=depth,
        start_noise=start_noise,
        robot=robot,
        terminate_on_success=terminate_on_success,
        perturbations=perturbations,
    )


class Demonstrator(RetryingExpert, Iterator["Action"]):
    """The expert's actions until it has let go, and some further steps.

    Args:
        env: An environment that was just reset.
        rng: Chooses among equally good grips.
    """

    def __init__(self, env: TabletopEnv, rng: np.random.Generator) -> None:
        from clframe.worlds.tabletop.expert import Expert

        self._expert, self._world, self._n = Expert(env.world, rng), env.world, 0
        self._actions = self._run()

    def __next__(self) -> Action:
        action = next(self._actions)
        self._n += 1
        return action

    def retries(self) -> NDArray[np.bool_]:
        """Return for each action so far whether it belonged to an attempt that was given up."""
        marks = np.zeros(self._n, np.bool_)
        for start, end in self._expert.abandoned:
            marks[start:end] = True
        return marks

    def _run(self) -> Iterator[Action]:
        held = 0  # steps since the goal was reached
        for action in self._expert.run():
            yield action
            held = held + 1 if self._world.satisfied() else 0
        if self._expert.failed:
            return
        yield from self._expert.retreat(AFTER_SUCCESS + 1 - held)
        while self._holding():  # if it cannot let go, the episode times out and is not kept
            yield from self._expert.retreat(1)

    def _holding(self) -> bool:
        """Return whether the hand still touches an object that it has placed."""
        moved = (atom[1] for atom in self._world.problem.goal.atoms if len(atom) == 3)
        return any(self._world.touching(HAND, name) for name in moved)


def expert(env: Any, disturbance: Disturbance | None = None) -> Demonstrator:
    """Return the scripted expert's actions in an environment that was just reset.

    Args:
        env: A `TabletopEnv`, or a wrapper around one.
        disturbance: How to disturb the hand until the next reset; None does not disturb it.
    """
    from clframe.worlds.tabletop.env import TabletopEnv

    inner: TabletopEnv = env if isinstance(env, TabletopEnv) else env.unwrapped
    # Derived from the start state, so that an episode always has the same disturbance.
    seed = int(np.abs(inner.world.data.qpos).sum() * 1e9) % 2**32
    if disturbance is not None:
        inner.disturber = Disturber(disturbance, seed)
    return Demonstrator(inner, np.random.default_rng([seed, 1]))
