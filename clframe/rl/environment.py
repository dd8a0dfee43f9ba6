"""An environment whose outputs are checked, with errors that name the problem.

Worker processes import this module, so it does not import torch.
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
    """The result of a step."""

    state: NDArray[np.float32]
    reward: float
    terminated: bool
    truncated: bool
    success: bool


class HeldActions(WrappedEnvironment):
    """An environment that repeats every action; rewards add up.

    Args:
        make: Creates the environment.
        times: Number of repetitions.
    """

    def __init__(self, make: MakeEnvironment, times: int) -> None:
        super().__init__(as_environment(make()))
        self.times = times
        self.rate = self.environment.rate / times

    def step(self, action: NDArray[Any]) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Repeat the action, or stop when the episode ends.

        It is a success if the goal held after any repetition.
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
        action_size: Numbers in an action, or choices, as in the stream's first task.
        discrete: Whether actions are choices.
        mask: The state's numbers that are 1 for a possible choice and 0 for another; None if all
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
        """Steps since the episode's start."""

    def reset(self, seed: int) -> NDArray[np.float32]:
        """Begin an episode; return its first state."""
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
        """Check that a mask holds only 0 and 1, and at least one possible choice."""
        if self.mask is None:
            return
        mask = state[self.mask]
        odd = np.flatnonzero((mask != 0) & (mask != 1))
        if len(odd):
            raise DataError(
                f"{self._where} gave a mask whose number {odd[0]} is {mask[odd[0]]:g}; it must be "
                "1 for a possible choice and 0 for another"
            )
        if not ended and not mask.any():
            raise DataError(
                f"{self._where} gave a mask of zeros; without a possible choice the episode must "
                "be over (terminated)"
            )

    def close(self) -> None:
        """Close the environment."""
        self.environment.close()

    @property
    def _where(self) -> str:
        return f"the environment of task '{self.name}' at step {self.steps}"

    def _state(self, observation: Any) -> NDArray[np.float32]:
        observations = as_dictionary(observation)
        if STATE not in observations:
            raise DataError(
                f"{self._where} gave no '{STATE}', only {', '.join(observations) or 'nothing'}"
            )
        state = observations[STATE].astype(np.float32, copy=False)
        if state.shape != (self.state_size,):
            raise DataError(
                f"{self._where} gave a state of shape {state.shape}, but the stream's states are "
                f"({self.state_size},)"
            )
        if not np.isfinite(state).all():
            index = int(np.flatnonzero(~np.isfinite(state))[0])
            raise DataError(f"{self._where} gave a state whose number {index} is {state[index]}")
        if self._low is not None and self._high is not None:
            outside = np.flatnonzero((state < self._low) | (state > self._high))
            if len(outside):
                index = int(outside[0])
                raise DataError(
                    f"{self._where} gave a state outside of its observation_space: number {index} "
                    f"is {state[index]:g}, not in [{self._low[index]:g}, {self._high[index]:g}]"
                )
        return state


def check_choices(environment: Environment, task: str, choices: int) -> None:
    """Check that an action space has the stream's number of choices, counted from 0.

    An environment without a space passes.
    """
    space = environment.action_space
    if space is None:
        return
    where = f"the environment of task '{task}', before its first step,"
    n, first = getattr(space, "n", None), getattr(space, "start", None)
    if not isinstance(n, int | np.integer) or first is None:
        raise DataError(
            f"{where} has the action space {type(space).__name__}, but the stream's actions are "
            f"choices; it needs Discrete({choices})"
        )
    if n != choices:
        raise DataError(
            f"{where} has {n} choices, but the stream's first task has {choices}; all tasks of a "
            "stream need the same choices"
        )
    if first != 0:
        raise DataError(f"{where} counts its choices from {first}; wrap it so that they start at 0")


def check_action_space(environment: Environment, task: str, action_size: int) -> None:
    """Check that an action space is a box from -1 to 1 of the stream's size.

    An environment without a space passes, as in clframe's robot streams.
    """
    space = environment.action_space
    if space is None:
        return
    where = f"the environment of task '{task}', before its first step,"
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None:
        raise DataError(
            f"{where} has the action space {type(space).__name__}; learning by reward needs a Box "
            "of numbers from -1 to 1"
        )
    if np.shape(low) != (action_size,):
        raise DataError(
            f"{where} takes actions of shape {np.shape(low)}, but the stream's first task takes "
            f"({action_size},); all tasks of a stream need actions of one size"
        )
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise DataError(
            f"{where} has an unbounded action space; wrap it so that actions are from -1 to 1"
        )
    if not (np.allclose(low, -1) and np.allclose(high, 1)):
        raise DataError(
            f"{where} takes actions from {np.min(low):g} to {np.max(high):g}; wrap it so that they "
            "are from -1 to 1 (gymnasium.wrappers.RescaleAction)"
        )
