"""A Gymnasium environment as a task: one row of numbers, actions from -1 to 1, success.

Light on purpose: worker processes import it and have no use for torch.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import types
import typing
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError, SettingError, nearest
from clframe.worlds.environment import Environment
from clframe.worlds.gym.spaces import Flattening, flattening_of

KNOWN = ("minigrid", "gymnasium_robotics")
"""Packages whose environments are in Gymnasium's registry once they are imported."""
FLAGS = ("success", "is_success")
"""How environments say in ``info`` that the goal holds now."""
MOST = 10_000
"""Numbers of an observation above which it is an image to be seen and not a state."""


@dataclass(frozen=True)
class Source:
    """Which environment: its name and the arguments it is made with.

    Args:
        id: As Gymnasium's registry has it, or ``module:id``, or ``module:attribute`` for a class
            or function that makes one.
        arguments: Of what makes it.
        success_return: An episode whose return reaches this is a success; None: it says so itself.
    """

    id: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    success_return: float | None = None


@dataclass(frozen=True)
class Facts:
    """What is known of an environment before it is learned."""

    flattening: Flattening
    choices: int | None
    """How many actions to choose from; None where an action is numbers."""
    numbers: int
    """Of an action; 1 where it is a choice."""
    limit: int | None
    """Steps after which the environment ends an episode itself."""
    flag: str | None
    """The entry of ``info`` that says whether the goal holds."""
    threshold: float | None
    """The return from which on Gymnasium takes it as solved."""


def missing() -> str | None:
    """Why no environment can be made here, or None."""
    if find_spec("gymnasium") is None:
        return "gymnasium is not installed: pip install 'clframe[gym]'"
    return None


def create(source: Source) -> Any:
    """The environment itself, as Gymnasium makes it."""
    problem = missing()
    if problem is not None:
        raise DataError(f"the environment '{source.id}' cannot be made: {problem}")
    import gymnasium

    module, _, name = source.id.rpartition(":")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if module:
                maker = getattr(_imported(module, source.id), name, None)
                if maker is not None:
                    _check_maker(maker, source.id)
                    return maker(**source.arguments)
            elif name not in gymnasium.registry:
                _import_known()
            _mend_robotics()
            return gymnasium.make(name, **{"disable_env_checker": True, **source.arguments})
    except gymnasium.error.UnregisteredEnv as error:
        raise SettingError(
            f"stream.envs: Gymnasium has no environment '{name}'; {nearest(name, _names())} "
            "(MODULE:NAME imports the module first)"
        ) from error
    except (SettingError, DataError):
        raise
    except Exception as error:
        words = str(error).strip().split("\n")[0] or "no reason given"
        raise DataError(
            f"the environment '{source.id}' cannot be made: {type(error).__name__}: {words}"
        ) from error


def _imported(module: str, whole: str) -> types.ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if module in KNOWN:
            raise DataError(
                f"the environment '{whole}' cannot be made: {error.name} is not installed: pip "
                "install 'clframe[gym]'"
            ) from error
        raise SettingError(
            f"stream.envs: '{whole}' names the module '{module}', but there is no module "
            f"'{error.name}': write the id alone, MODULE:ID or MODULE:ATTRIBUTE"
        ) from error


def _check_maker(maker: Any, whole: str) -> None:
    """Refuse to call anything that does not say that it makes an environment.

    The name may come from the config of a run that somebody else has sent.
    """
    import gymnasium

    if isinstance(maker, type):
        made: Any = maker
    else:
        made = None
        with contextlib.suppress(Exception):
            # Gymnasium may have been imported for the type checker alone.
            known = {"gymnasium": gymnasium, **maker.__globals__}
            made = typing.get_type_hints(maker, known).get("return")
            made = typing.get_origin(made) or made
    if not (isinstance(made, type) and issubclass(made, gymnasium.Env)):
        raise SettingError(
            f"stream.envs: '{whole}' is not called, since it does not say that it makes an "
            "environment: it must be a subclass of gymnasium.Env, or a function annotated with "
            "'-> gymnasium.Env'"
        )


@functools.cache
def _import_known() -> None:
    """Import what is installed of the packages that bring environments."""
    for package in KNOWN:
        if find_spec(package) is not None:
            importlib.import_module(package)


def _names() -> list[str]:
    import gymnasium

    return list(gymnasium.registry)


def _mend_robotics() -> None:
    """Let Gymnasium-Robotics 1.4 tell the kinds of joints on MuJoCo 3.17 and later.

    It looks for numbers of the model among members of ``mujoco.mjtJoint``, which no number is equal
    to any more. There the module is given one whose members are numbers.
    """
    import sys

    theirs = sys.modules.get("gymnasium_robotics.utils.mujoco_utils")
    mujoco = getattr(theirs, "mujoco", None)
    if mujoco is None or np.int32(3) in (mujoco.mjtJoint.mjJNT_HINGE,):
        return
    joints = ("FREE", "BALL", "SLIDE", "HINGE")
    mended = types.SimpleNamespace(**vars(mujoco))
    mended.mjtJoint = types.SimpleNamespace(
        **{f"mjJNT_{kind}": int(getattr(mujoco.mjtJoint, f"mjJNT_{kind}")) for kind in joints}
    )
    theirs.mujoco = mended  # type: ignore[union-attr]


def look(source: Source) -> Facts:
    """What an environment is like, from its spaces and its first step."""
    environment = create(source)
    try:
        return _facts(environment, source.id)
    finally:
        environment.close()


def _facts(environment: Any, name: str) -> Facts:
    from gymnasium import spaces

    action = environment.action_space
    choices, numbers = None, 1
    if isinstance(action, spaces.Discrete):
        choices = int(action.n)
    elif isinstance(action, spaces.Box):
        numbers = int(np.prod(action.shape, dtype=int))
        if not (np.isfinite(action.low).all() and np.isfinite(action.high).all()):
            raise SettingError(
                f"stream.envs: actions of '{name}' have no bounds, so they cannot be scaled to -1 "
                "... 1: name a MODULE:ATTRIBUTE that wraps it (gymnasium.wrappers.RescaleAction)"
            )
    else:
        raise SettingError(
            f"stream.envs: '{name}' has the action space {type(action).__name__}; an action must "
            "be numbers (Box) or one choice (Discrete)"
        )
    flattening = flattening_of(environment.observation_space)
    if not 0 < flattening.size <= MOST:
        raise SettingError(
            f"stream.envs: an observation of '{name}' is {flattening.size} numbers, and must be 1 "
            f"to {MOST}: name a MODULE:ATTRIBUTE that wraps it to a smaller one"
        )
    environment.reset(seed=0)
    action.seed(0)
    info = environment.step(action.sample())[4]
    spec = environment.spec
    return Facts(
        flattening,
        choices,
        numbers,
        getattr(spec, "max_episode_steps", None),
        next((flag for flag in FLAGS if flag in info), None),
        getattr(spec, "reward_threshold", None),
    )


class GymEnvironment(Environment):
    """An environment whose observations, actions and success are as robot tasks have them.

    Box actions are scaled from -1 ... 1 to their own bounds; a choice is its number. Success is
    what the environment says at any step, or, with a return to be reached, whether an episode that
    has come to its end has reached it.

    Args:
        source: Which one.
        state_size: Numbers of a state; shorter observations are followed by zeros.
        horizon: Steps after which an episode ends if the environment does not end it before.
        success_return: The return to be reached; None: the environment says it itself.
    """

    def __init__(
        self, source: Source, state_size: int, horizon: int, success_return: float | None
    ) -> None:
        from gymnasium import spaces

        self.source, self.horizon, self.success_return = source, horizon, success_return
        self.inner = create(source)
        self._flatten = flattening_of(self.inner.observation_space).flatten
        self._state_size = state_size
        own = self.inner.action_space
        self.action_space: Any = own
        if isinstance(own, spaces.Discrete):
            self.action_space = spaces.Discrete(int(own.n))
        else:
            self._low, self._high = own.low.astype(np.float64), own.high.astype(np.float64)
            self.action_space = spaces.Box(-1.0, 1.0, (int(np.prod(own.shape)),), np.float32)
        self.render_mode: str | None = None
        self.steps, self.total = 0, 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Begin an episode; the same seed begins the same one."""
        seen, info = self.inner.reset(seed=seed, options=options)
        self.steps, self.total = 0, 0.0
        return self._state(seen), {**info, "success": False}

    def step(
        self, action: NDArray[Any]
    ) -> tuple[dict[str, NDArray[Any]], float, bool, bool, dict[str, Any]]:
        """Do one action: numbers from -1 to 1, or the number of a choice."""
        seen, reward, terminated, truncated, info = self.inner.step(self._own_action(action))
        self.steps += 1
        self.total += float(reward)
        truncated = bool(truncated) or self.steps >= self.horizon
        success = self._success(info, bool(terminated) or truncated)
        return (
            self._state(seen),
            float(reward),
            bool(terminated),
            truncated,
            {**info, "success": success},
        )

    def _success(self, info: Mapping[str, Any], ended: bool) -> bool:
        if self.success_return is not None:
            return ended and self.total >= self.success_return
        for flag in FLAGS:
            if flag in info:
                return bool(info[flag])
        raise DataError(
            f"the environment '{self.source.id}' does not say at step {self.steps} whether the "
            "goal holds (info['success'] or info['is_success']): set stream.success_return"
        )

    def _own_action(self, action: NDArray[Any]) -> Any:
        numbers = np.asarray(action, np.float64).ravel()
        if hasattr(self.action_space, "n"):
            if numbers.size != 1:
                raise DataError(
                    f"the environment '{self.source.id}' takes the number of a choice, but was "
                    f"given {numbers.size} numbers: learner=ppo chooses"
                )
            return int(self.inner.action_space.start) + int(numbers[0])
        share = (np.clip(numbers, -1.0, 1.0) + 1.0) / 2.0
        space = self.inner.action_space
        scaled = self._low + share.reshape(space.shape) * (self._high - self._low)
        return np.clip(scaled.astype(space.dtype), space.low, space.high)

    def _state(self, seen: Any) -> dict[str, NDArray[Any]]:
        row = self._flatten(seen)
        state = np.zeros(self._state_size, np.float32)
        state[: len(row)] = row
        return {"state": state}

    def render(self) -> NDArray[np.uint8] | None:
        """An image, where the environment was made with render_mode=rgb_array."""
        if self.render_mode is None or self.inner.render_mode != "rgb_array":
            return None
        image: NDArray[np.uint8] = self.inner.render()
        return image

    def close(self) -> None:
        """Give the environment up."""
        self.inner.close()
