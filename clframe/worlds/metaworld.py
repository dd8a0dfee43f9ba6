"""Meta-World's environments with goals that follow from a seed, on any MuJoCo from 3.3 on.

Light on purpose: worker processes import it and have no use for torch. See Yu et al.,
"Meta-World: A Benchmark and Evaluation for Multi-Task and Meta Reinforcement Learning", 2019.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError, SettingError, nearest
from clframe.worlds.environment import Environment

STATE_SIZE, ACTION_SIZE = 39, 4
LONGEST = 500
"""Steps of an episode that Meta-World allows."""
CAMERAS = ("corner", "corner2", "corner3", "corner4", "topview", "behindGripper", "gripperPOV")
_UPSIDE_DOWN = ("corner", "corner2", "corner3", "corner4")
# A weld's anchor, relative pose and torque scale. MuJoCo 3.17 made the row one number longer.
_WELD = np.array([0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 5], dtype=np.float64)

_goals: dict[tuple[str, int], NDArray[np.float64]] = {}
"""What a task's seeds have been found to draw: drawing takes as long as beginning an episode."""


def installed() -> str | None:
    """Why Meta-World cannot be used here, or None."""
    missing = []
    for package in ("metaworld", "gymnasium", "mujoco", "h5py", "scipy"):
        try:
            version(package)
        except PackageNotFoundError:
            missing.append(package)
    if missing:
        return (
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed: "
            "pip install 'clframe[metaworld]'"
        )
    return None


@functools.cache
def versions() -> dict[str, str]:
    """The versions that decide what an episode looks like; '?' where one is not installed."""
    result = {}
    for package in ("metaworld", "mujoco"):
        try:
            result[package] = version(package)
        except PackageNotFoundError:
            result[package] = "?"
    return result


def check_camera(camera: str) -> None:
    """Refuse a camera that Meta-World does not have."""
    if camera not in CAMERAS:
        raise SettingError(f"Meta-World has no camera '{camera}'; {nearest(camera, CAMERAS)}")


@functools.cache
def _class(name: str) -> Any:
    """Meta-World's class of a task, with weld rows of the width that this MuJoCo has."""
    problem = installed()
    if problem is not None:
        raise DataError(f"Meta-World's task '{name}' cannot be made: {problem}")
    import mujoco
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS

    names = [key.removesuffix("-v3") for key in ALL_V3_ENVIRONMENTS]
    if name not in names:
        raise SettingError(f"Meta-World has no task '{name}'; {nearest(name, names)}")

    def reset_mocap_welds(self: Any) -> None:
        model = self.model
        for row in range(model.neq):
            if model.eq_type[row] == mujoco.mjtEq.mjEQ_WELD:
                model.eq_data[row] = 0.0
                model.eq_data[row, : len(_WELD)] = _WELD

    def touching_object(self: Any, object_geom_id: int) -> bool:
        # As the original, which looks at every contact twice in Python: half the time of a step.
        data = self.data
        pairs, address = data.contact.geom, data.contact.efc_address
        if not len(pairs):
            return False
        thing = (pairs == object_geom_id).any(1)
        for pad in ("leftpad_geom", "rightpad_geom"):
            both = thing & (pairs == data.geom(pad).id).any(1)
            if not both.any() or not sum(data.efc_force[address[both]].tolist()) > 0:
                return False
        return True

    def get_curr_obs_combined_no_goal(self: Any) -> NDArray[np.float64]:
        # As the original, which splits and stacks its way there.
        data = self.data
        apart = np.linalg.norm(data.body("rightclaw").xpos - data.body("leftclaw").xpos) / 0.1
        seen = np.zeros(4 + self._obs_obj_max_len)
        seen[:3], seen[3] = self.get_endeff_pos(), min(max(apart, 0.0), 1.0)
        places, turns = self._get_pos_objects(), self._get_quat_objects()
        for thing in range(len(places) // 3):
            start = 4 + 7 * thing
            seen[start : start + 3] = places[3 * thing : 3 * thing + 3]
            seen[start + 3 : start + 7] = turns[4 * thing : 4 * thing + 4]
        return seen

    base = ALL_V3_ENVIRONMENTS[f"{name}-v3"]
    attributes = {
        "reset_mocap_welds": reset_mocap_welds,
        "touching_object": touching_object,
        "_get_curr_obs_combined_no_goal": get_curr_obs_combined_no_goal,
    }
    return type(base.__name__, (base,), attributes)


@functools.cache
def _environment_class() -> Any:
    import gymnasium
    from gymnasium import spaces

    class MetaWorldEnvironment(gymnasium.Env, Environment):
        """One Meta-World task: the goal and the things' places follow from ``reset(seed=)``.

        Observations are a dictionary with ``state`` (39 numbers, the goal always among them) and,
        with a camera, ``<camera>_rgb``. Nothing ends an episode but its 500th step.

        Args:
            name: Of the task, without ``-v3``.
            camera: One of Meta-World's, or None.
            size: Pixels of an image's side.
            variation: Every episode has the goal and places that this seed draws; None: its own.
        """

        metadata = {"render_modes": ["rgb_array"], "render_fps": 80}  # noqa: RUF012
        rate = 80.0
        video_cameras = ("corner", "gripperPOV")

        def __init__(
            self,
            name: str,
            camera: str | None = None,
            size: int = 64,
            render_mode: str | None = None,
            variation: int | None = None,
        ) -> None:
            if camera is not None:
                check_camera(camera)
            self.variation = variation
            self.name, self.camera, self.size, self.render_mode = name, camera, size, render_mode
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.simulation = _class(name)()
            inner = self.simulation
            inner._partially_observable = False
            inner.__dict__.pop("sawyer_observation_space", None)
            inner._set_task_called = True
            inner._freeze_rand_vec, inner.seeded_rand_vec = False, True
            self.raw: NDArray[np.float64] = np.zeros(STATE_SIZE)
            self._eyes: dict[int, Any] = {}
            self.action_space = spaces.Box(-1.0, 1.0, (ACTION_SIZE,), np.float32)
            seen: dict[str, Any] = {"state": spaces.Box(-np.inf, np.inf, (STATE_SIZE,), np.float32)}
            if camera is not None:
                seen[f"{camera}_rgb"] = spaces.Box(0, 255, (size, size, 3), np.uint8)
            self.observation_space = spaces.Dict(seen)

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
            """Begin an episode; the same seed begins the same one."""
            super().reset(seed=seed)
            inner = self.simulation
            chosen = int(self.np_random.integers(2**31)) if seed is None else seed
            if self.variation is not None:
                chosen = self.variation
            goal = _goals.get((self.name, chosen))
            if goal is None:
                # Some tasks draw again until goal and thing are far enough apart.
                inner._freeze_rand_vec, inner.np_random = False, np.random.default_rng(chosen)
                inner.reset_model()
                goal = _goals[self.name, chosen] = inner._last_rand_vec.copy()
            inner._freeze_rand_vec, inner._last_rand_vec = True, goal
            self.raw, _ = inner.reset()
            return self._observe(), {"success": False}

        def step(
            self, action: NDArray[Any]
        ) -> tuple[dict[str, NDArray[Any]], float, bool, bool, dict[str, Any]]:
            """Do one action: hand displacement (3) and gripper effort (1), each in -1..1."""
            clipped = np.clip(np.asarray(action, np.float32), -1.0, 1.0)
            self.raw, reward, _, late, info = self.simulation.step(clipped)
            success = bool(info["success"])
            return self._observe(), float(reward), False, bool(late), {**info, "success": success}

        def _observe(self) -> dict[str, NDArray[Any]]:
            seen: dict[str, NDArray[Any]] = {"state": self.raw.astype(np.float32)}
            if self.camera is not None:
                seen[f"{self.camera}_rgb"] = self.image(self.camera, self.size)
            return seen

        def image(self, camera: str, size: int) -> NDArray[np.uint8]:
            """What a camera sees, right side up, by ray casting."""
            from clframe.worlds.render import RayCamera, View

            inner = self.simulation
            if size not in self._eyes:
                self._eyes[size] = RayCamera(inner.model, size, size)
            frame = self._eyes[size].render(
                inner.data, View.of_camera(inner.model, inner.data, camera)
            )
            rgb: NDArray[np.uint8] = frame.rgb
            return np.ascontiguousarray(rgb[::-1, ::-1]) if camera in _UPSIDE_DOWN else rgb

        def render(self) -> NDArray[np.uint8] | None:
            """An image for people."""
            return None if self.render_mode is None else self.image("corner", 192)

        def simulator_state(self) -> NDArray[np.float64]:
            """Time, positions and velocities, as robomimic's files have them."""
            data = self.simulation.data
            return np.concatenate([[data.time], data.qpos, data.qvel])

        def close(self) -> None:
            """Let go of the simulator's renderer."""
            self.simulation.close()

    return MetaWorldEnvironment


def make(name: str, **settings: Any) -> Any:
    """The environment of a task."""
    problem = installed()
    if problem is not None:
        raise DataError(f"Meta-World's task '{name}' cannot be made: {problem}")
    return _environment_class()(name, **settings)


def expert(environment: Any) -> Iterator[NDArray[Any]]:
    """The actions of Meta-World's own scripted expert."""
    from metaworld.policies import ENV_POLICY_MAP

    policy = ENV_POLICY_MAP[f"{environment.name}-v3"]()
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it asks for more than the limits allow
            action = np.asarray(policy.get_action(environment.raw), np.float32)
        yield np.clip(action, -1.0, 1.0)
