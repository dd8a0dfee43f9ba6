"""An environment whose every answer is checked, and which says in a sentence what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.robot.task import (
    STATE,
    Environment,
    MakeEnvironment,
    RobotTask,
    as_dictionary,
    success_of,
)


class Moment(NamedTuple):
    """What a step leads to."""

    state: NDArray[np.float32]
    reward: float
    terminated: bool
    truncated: bool
    success: bool


class HeldActions:
    """An environment in which an action is done several times; rewards add up.

    Args:
        make: Makes the environment.
        times: How often.
    """

    def __init__(self, make: MakeEnvironment, times: int) -> None:
        self.environment, self.times = make(), times

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        return self.environment.reset(seed=seed, options=options)

    def step(self, action: NDArray[Any]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Do the action so many times, or until the episode ends.

        It was a success if the goal held at any of them.
        """
        total, succeeded = 0.0, False
        for _ in range(self.times):
            observation, reward, terminated, truncated, info = self.environment.step(action)
            total += reward
            succeeded = succeeded or bool(info.get("success"))
            if terminated or truncated:
                break
        if "success" in info:
            info = {**info, "success": succeeded}
        return observation, total, terminated, truncated, info

    def __getattr__(self, name: str) -> Any:
        if name == "environment":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.environment, name)


class CheckedEnvironment:
    """A task's environment for learning.

    Args:
        robot: The task.
        state_size: Numbers of a state.
        action_size: Numbers of an action, as the stream's first task has them.
    """

    def __init__(self, robot: RobotTask, state_size: int, action_size: int) -> None:
        self.name = robot.name
        self.state_size = state_size
        self.environment: Environment = robot.environment()
        check_action_space(self.environment, robot.name, action_size)
        space = getattr(self.environment, "observation_space", None)
        if isinstance(getattr(space, "spaces", None), Mapping):
            space = space.spaces.get(STATE)  # type: ignore[union-attr]
        self._low, self._high = getattr(space, "low", None), getattr(space, "high", None)
        self.steps = 0
        """Since the episode's start."""

    def reset(self, seed: int) -> NDArray[np.float32]:
        """Begin an episode; gives its first state."""
        self.steps = 0
        observation, _ = self.environment.reset(seed=seed)
        return self._state(observation)

    def step(self, action: NDArray[Any]) -> Moment:
        """Do one action."""
        self.steps += 1
        observation, reward, terminated, truncated, info = self.environment.step(action)
        if not np.isfinite(reward):
            raise DataError(f"{self._where} gave the reward {reward}, which is not a finite number")
        success = success_of(info, self.name, self.steps)
        return Moment(
            self._state(observation), float(reward), bool(terminated), bool(truncated), success
        )

    def close(self) -> None:
        """Give the environment up."""
        getattr(self.environment, "close", lambda: None)()

    @property
    def _where(self) -> str:
        return f"the environment of task '{self.name}' at step {self.steps}"

    def _state(self, observation: Any) -> NDArray[np.float32]:
        parts = as_dictionary(observation)
        if STATE not in parts:
            raise DataError(
                f"{self._where} gave no '{STATE}', only {', '.join(parts) or 'nothing'}"
            )
        state = parts[STATE].astype(np.float32, copy=False)
        if state.shape != (self.state_size,):
            raise DataError(
                f"{self._where} gave a state of shape {state.shape}, but the stream's states are "
                f"({self.state_size},)"
            )
        if not np.isfinite(state).all():
            place = int(np.flatnonzero(~np.isfinite(state))[0])
            raise DataError(f"{self._where} gave a state whose number {place} is {state[place]}")
        if self._low is not None and self._high is not None:
            outside = np.flatnonzero((state < self._low) | (state > self._high))
            if len(outside):
                place = int(outside[0])
                raise DataError(
                    f"{self._where} gave a state outside of its observation_space: number {place} "
                    f"is {state[place]:g}, not in [{self._low[place]:g}, {self._high[place]:g}]"
                )
        return state


def check_action_space(environment: Any, task: str, action_size: int) -> None:
    """Refuse an action space that is not a box from -1 to 1 of the stream's size.

    One that has no space is taken to be right; robot streams of clframe's are.
    """
    space = getattr(environment, "action_space", None)
    if space is None:
        return
    where = f"the environment of task '{task}', before its first step,"
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None:
        raise DataError(
            f"{where} has the action space {type(space).__name__}: learning by reward needs one "
            "Box of numbers from -1 to 1"
        )
    if np.shape(low) != (action_size,):
        raise DataError(
            f"{where} takes actions of shape {np.shape(low)}, but the stream's first task takes "
            f"({action_size},): all tasks of a stream need actions of one size"
        )
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise DataError(
            f"{where} has an action space without bounds: wrap it so that actions are from -1 to 1"
        )
    if not (np.allclose(low, -1) and np.allclose(high, 1)):
        raise DataError(
            f"{where} takes actions from {np.min(low):g} to {np.max(high):g}: wrap it so that they "
            "are from -1 to 1 (gymnasium.wrappers.RescaleAction)"
        )
