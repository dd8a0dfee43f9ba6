"""The Gymnasium environment of a tabletop task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from clframe.errors import DataError, SettingError, nearest
from clframe.worlds.bddl import Leniency, Problem, parse
from clframe.worlds.environment import Environment
from clframe.worlds.perturbation import Perturbation
from clframe.worlds.tabletop import suites
from clframe.worlds.tabletop.cameras import CAMERAS, Cameras
from clframe.worlds.tabletop.compiler import AGENT_CAMERA, ROBOTS, RobotKind
from clframe.worlds.tabletop.disturbance import Disturber
from clframe.worlds.tabletop.observation import (
    FAR,
    PROPRIOCEPTION,
    Layout,
    StateVector,
    layout_of,
    proprioception,
    suite_layout,
)
from clframe.worlds.tabletop.perturb import Perturber
from clframe.worlds.tabletop.wording import paraphrase
from clframe.worlds.tabletop.world import RATE, World

HORIZON = 600
ACTION_SIZE = 7
Observation = dict[str, Any]


class TabletopEnv(gymnasium.Env[Observation, NDArray[np.float32]], Environment):
    """One task as an environment: 7-d actions at 20 Hz, reward 1 and end of episode on success.

    Observations are a dictionary: ``state``, and under LIBERO's names ``gripper_states``,
    ``ee_pos``, ``ee_ori`` and, of an arm, ``joint_states``; for each camera ``<camera>_rgb``
    (uint8) and, if asked for, ``<camera>_depth`` (meters). ``info`` holds ``success``,
    ``language`` and ``progress`` (the share of the goal's atoms that hold). A start state follows
    from the seed alone. ``disturber``, if set, pushes the hand about until the next reset;
    ``info["executed"]`` is what was done then.

    Args:
        task: A task of a suite, a problem, or the path or text of a task file.
        cameras: Some of ``agentview`` and ``wrist``.
        size: Pixels of an image's side.
        horizon: Steps until the episode is truncated.
        layout: Slots of the state; None takes those of the task's suite, or of the task alone.
        render_mode: None or ``rgb_array`` (the agent's view, 256 pixels).
        depth: Whether cameras see depth, too.
        start_noise: How far off its place the hand may start, see `World.reset`.
        terminate_on_success: Whether success ends the episode; demonstrations go on to let go.
        robot: ``arm`` or ``hand``, one that floats.
        perturbations: How episodes differ from those of the demonstrations; see
            `clframe.worlds.tabletop.perturb`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": RATE}  # noqa: RUF012  Gymnasium's own
    rate = float(RATE)
    video_cameras = CAMERAS

    def __init__(
        self,
        task: suites.TabletopTask | Problem | Path | str,
        cameras: Sequence[str] = (),
        size: int = 64,
        horizon: int = HORIZON,
        layout: Layout | None = None,
        render_mode: str | None = None,
        depth: bool = False,
        start_noise: float = 0.0,
        terminate_on_success: bool = True,
        robot: RobotKind = "arm",
        perturbations: Sequence[Perturbation] = (),
    ) -> None:
        if robot not in ROBOTS:
            raise SettingError(f"There is no robot '{robot}'; {nearest(robot, ROBOTS)}")
        for camera in cameras:
            if camera not in CAMERAS:
                raise SettingError(f"There is no camera '{camera}'; {nearest(camera, CAMERAS)}")
        if horizon < 1:
            raise SettingError(f"horizon must be 1 or more, not {horizon}.")
        problem, self.language = _read(task)
        if layout is None:
            if isinstance(task, suites.TabletopTask) and task.suite in suites.SHIPPED:
                layout = suite_layout(task.suite)
            else:
                layout = layout_of([problem])
        self.task, self.horizon, self.cameras = task, horizon, tuple(cameras)
        self.render_mode = render_mode
        self.depth, self.start_noise = depth, start_noise
        self.terminate_on_success = terminate_on_success
        self.world = World(problem, robot=robot)
        self.layout = layout = layout.of(robot)
        self._perturber: Perturber | None = None
        if any(perturbation.level > 0 for perturbation in perturbations):
            self._perturber = Perturber(perturbations, self.world, layout)
        for perturbation in perturbations:
            if perturbation.axis == "wording":
                self.language = paraphrase(self.language, perturbation.level)
        self._state = StateVector(self.world, layout)
        self._images = Cameras(self.world, size) if cameras else None
        self._videos: dict[int, Cameras] = {}
        self._steps = 0
        self.disturber: Disturber | None = None
        self.action_space = spaces.Box(-1.0, 1.0, (ACTION_SIZE,), np.float32)
        seen: dict[str, spaces.Space[Any]] = {
            "state": spaces.Box(-FAR, FAR, (layout.size,), np.float32)
        }
        own = PROPRIOCEPTION | ({"joint_states": 7} if robot == "arm" else {})
        seen |= {name: spaces.Box(-FAR, FAR, (n,), np.float32) for name, n in own.items()}
        for camera in cameras:
            seen[f"{camera}_rgb"] = spaces.Box(0, 255, (size, size, 3), np.uint8)
            if depth:
                seen[f"{camera}_depth"] = spaces.Box(0.0, FAR, (size, size), np.float32)
        self.observation_space = spaces.Dict(seen)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; the same seed starts the same one."""
        super().reset(seed=seed)
        self._steps = 0
        self.disturber = None
        if self._perturber is None:
            self.world.reset(self.np_random, self.start_noise)
        else:
            self._perturber.reset(self.np_random, seed, self.start_noise)
            for images in (self._images, *self._videos.values()):
                if images is not None:
                    self._perturber.dress(images)
        return self._observe(), self._info()

    def step(
        self, action: NDArray[np.floating[Any]]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Do one action.

        Raises:
            DataError: If the action has another size or is not made of finite numbers.
        """
        array = np.asarray(action, dtype=np.float64)
        if array.shape != (ACTION_SIZE,):
            raise DataError(
                f"An action of the task '{self.language}' has {ACTION_SIZE} numbers, "
                f"not the shape {array.shape}."
            )
        if not np.isfinite(array).all():
            raise DataError(
                f"The policy's action at step {self._steps} of the task '{self.language}' holds "
                "NaN or infinity; its training has probably diverged."
            )
        executed = None
        if self.disturber is not None:
            # As it is stored, so that doing it again gives the same bits.
            executed = np.clip(self.disturber(array), -1.0, 1.0).astype(np.float32)
        self.world.step(array if executed is None else executed)
        self._steps += 1
        observation, info = self._observe(), self._info()
        success: bool = info["success"]
        if executed is not None:
            info["executed"] = executed
        ended = success and self.terminate_on_success
        late = self._steps >= self.horizon
        return observation, float(success), ended, late and not ended, info

    def render(self) -> NDArray[np.uint8] | None:
        """An image for people."""
        return None if self.render_mode is None else self.image(AGENT_CAMERA, 256)

    def image(self, camera: str, size: int) -> NDArray[np.uint8]:
        """What a camera sees now, for people: with smooth edges."""
        if size not in self._videos:
            self._videos[size] = Cameras(self.world, size, samples=2)
            if self._perturber is not None:
                self._perturber.dress(self._videos[size])
        return self._videos[size].take(camera).rgb

    def simulator_state(self) -> NDArray[np.float64]:
        """All that decides what happens next; time, positions and speeds first, as in LIBERO."""
        return self.world.state()

    def model_file(self) -> str:
        """The world as MuJoCo XML."""
        return self.world.model_file()

    def restore(self, state: NDArray[np.float64]) -> Observation:
        """Go on from a state that `simulator_state` gave; returns what is seen there."""
        self.world.restore(state)
        return self._observe()

    def _observe(self) -> Observation:
        seen: Observation = {"state": self._state.read(), **proprioception(self.world)}
        if self._images is not None:
            seen |= self._images.observe(self.cameras, self.depth)
        return seen if self._perturber is None else self._perturber.observe(seen)

    def measures(self) -> dict[str, float]:
        """Of the state now: the share of the goal's atoms that hold."""
        return {"progress": self._info()["progress"]}

    def _info(self) -> dict[str, Any]:
        goal, true = self.world.problem.goal, self.world.true_atoms()
        success, share = goal.satisfied(true), len(true) / max(1, len(goal.atoms))
        return {"success": success, "language": self.language, "progress": share}


def _read(task: suites.TabletopTask | Problem | Path | str) -> tuple[Problem, str]:
    """The problem and its instruction."""
    if isinstance(task, suites.TabletopTask):
        return task.problem, task.instruction
    problem = task if isinstance(task, Problem) else parse(task, lenient=Leniency.ALL)
    return problem, problem.language or problem.name


def make(suite: str, task: str, **settings: Any) -> TabletopEnv:
    """The environment of a suite's task, by name or number.

    >>> make("tabletop_goal", "7").language
    'turn on the stove'
    """
    return TabletopEnv(suites.task(suite, task), **settings)


def make_vector(
    suite: str, names: Sequence[str], *, processes: bool = False, **settings: Any
) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Several environments stepped together.

    Args:
        suite: The suite.
        names: A task's name or number for each environment.
        processes: Whether each runs in a process of its own; worth it with cameras only.
        **settings: As of `TabletopEnv`.
    """
    makers = [partial(make, suite, name, **settings) for name in names]
    if processes:
        return gymnasium.vector.AsyncVectorEnv(makers)
    return gymnasium.vector.SyncVectorEnv(makers)
