"""An environment whose every answer is checked, and which says in a sentence what is wrong.

Light on purpose: worker processes import it and have no use for torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.robot.task import (
    STATE,
    MakeEnvironment,
    RobotTask,
    as_dictionary,
    success_of,
)
from clframe.worlds.environment import Environment, WrappedEnvironment, as_environment


class Moment(NamedTuple):
    """What a step leads to."""

    state: NDArray[np.float32]
    reward: float
    terminated: bool
    truncated: bool
    success: bool


class HeldActions(WrappedEnvironment):
    """An environment in which an action is done several times; rewards add up.

    Args:
        make: Makes the environment.
        times: How often.
    """

    def __init__(self, make: MakeEnvironment, times: int) -> None:
        super().__init__(as_environment(make()))
        self.times = times
        self.rate = self.environment.rate / times

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


class CheckedEnvironment:
    """A task's environment for learning.

    Args:
        robot: The task.
        state_size: Numbers of a state.
        action_size: Numbers of an action, or choices, as the stream's first task has them.
        discrete: Whether actions are choices.
        mask: Which numbers of a state are 1 for a possible choice and 0 for another; None where all
            are always possible.
    """

    def __init__(
        self,
        robot: RobotTask,
        state_size: int,
        action_size: int,
        discrete: bool = False,
        mask: slice | None = None,
    ) -> None:
        self.name = robot.name
        self.state_size, self.mask = state_size, mask
        self.environment = robot.make()
        check = check_choices if discrete else check_action_space
        check(self.environment, robot.name, action_size)
        space = self.environment.observation_space
        if isinstance(getattr(space, "spaces", None), Mapping):
            space = space.spaces.get(STATE)
        self._low, self._high = getattr(space, "low", None), getattr(space, "high", None)
        self.steps = 0
        """Since the episode's start."""

    def reset(self, seed: int) -> NDArray[np.float32]:
        """Begin an episode; gives its first state."""
        self.steps = 0
        observation, _ = self.environment.reset(seed=seed)
        state = self._state(observation)
        self._check_mask(state, ended=False)
        return state

    def step(self, action: NDArray[Any]) -> Moment:
        """Do one action."""
        self.steps += 1
        observation, reward, terminated, truncated, info = self.environment.step(action)
        if not np.isfinite(reward):
            raise DataError(f"{self._where} gave the reward {reward}, which is not a finite number")
        success = success_of(info, self.name, self.steps)
        state = self._state(observation)
        self._check_mask(state, ended=bool(terminated or truncated))
        return Moment(state, float(reward), bool(terminated), bool(truncated), success)

    def _check_mask(self, state: NDArray[np.float32], ended: bool) -> None:
        """Refuse a mask that is not made of 0 and 1, or leaves nothing to choose."""
        if self.mask is None:
            return
        mask = state[self.mask]
        odd = np.flatnonzero((mask != 0) & (mask != 1))
        if len(odd):
            raise DataError(
                f"{self._where} gave a mask whose number {odd[0]} is {mask[odd[0]]:g}: 1 is for a "
                "possible choice and 0 for another"
            )
        if not ended and not mask.any():
            raise DataError(
                f"{self._where} gave a mask of zeros: without a possible choice the episode must "
                "be over (terminated)"
            )

    def close(self) -> None:
        """Give the environment up."""
        self.environment.close()

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


def check_choices(environment: Environment, task: str, choices: int) -> None:
    """Refuse an action space that is not the stream's number of choices, counted from 0.

    One that has no space is taken to be right.
    """
    space = environment.action_space
    if space is None:
        return
    where = f"the environment of task '{task}', before its first step,"
    n, first = getattr(space, "n", None), getattr(space, "start", None)
    if not isinstance(n, int | np.integer) or first is None:
        raise DataError(
            f"{where} has the action space {type(space).__name__}: the stream's actions are "
            f"choices, which need Discrete({choices})"
        )
    if n != choices:
        raise DataError(
            f"{where} has {n} choices, but the stream's first task has {choices}: all tasks of a "
            "stream need the same ones"
        )
    if first != 0:
        raise DataError(f"{where} counts its choices from {first}: wrap it so that 0 is the first")


def check_action_space(environment: Environment, task: str, action_size: int) -> None:
    """Refuse an action space that is not a box from -1 to 1 of the stream's size.

    One that has no space is taken to be right; robot streams of clframe's are.
    """
    space = environment.action_space
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
