"""Replay demonstrations: the same seed and actions lead through the same states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.robot.demonstrations import Demonstration
from clframe.robot.task import RobotTask, as_dictionary, success_of
from clframe.worlds.environment import Environment, as_environment


@dataclass(frozen=True)
class Replay:
    """The result of replaying a demonstration.

    Args:
        apart: The largest difference from the recording of any observed number or simulator state;
            0 if all bits are equal.
        first: The first step at which anything differed; None if nothing did.
        reached: Whether the goal was reached at some step.
    """

    apart: float
    first: int | None
    reached: bool

    @property
    def equal(self) -> bool:
        """Whether everything was as recorded."""
        return self.first is None


def replay(task: RobotTask, environment: Environment, demo: Demonstration) -> Replay:
    """Replay a demonstration and compare all observations and simulator states.

    Args:
        task: The demonstration's task.
        environment: An environment from `RobotTask.make_recording`.
        demo: The demonstration; observations that the environment lacks are ignored.

    Raises:
        DataError: The demonstration has no seed.
    """
    if demo.seed is None:
        raise DataError(f"a demonstration of task '{task.name}' has no seed to replay it from")
    environment = as_environment(environment)
    observation, _ = environment.reset(seed=demo.seed)
    apart, first, reached = 0.0, None, False
    for step, action in enumerate(demo.done):
        observed = as_dictionary(observation)
        pairs = [(values[step], observed[name]) for name, values in demo.observations.items()]
        state = environment.simulator_state() if len(demo.states) else None
        if state is not None:
            pairs.append((demo.states[step], state))
        difference = max(_apart(recorded, now) for recorded, now in pairs)
        if difference and first is None:
            first = step
        apart = max(apart, difference)
        done: Any = int(action[0]) if task.discrete else action
        observation, _, _, _, info = environment.step(done)
        reached = success_of(info, task.name, step) or reached
    return Replay(apart, first, reached)


def _apart(recorded: NDArray[Any], now: NDArray[Any]) -> float:
    if recorded.shape != now.shape:
        return float("inf")
    if recorded.dtype != np.float64:
        now = now.astype(recorded.dtype)
    if np.array_equal(recorded, now):
        return 0.0
    return float(np.abs(recorded.astype(np.float64) - now.astype(np.float64)).max())


def other_versions(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Describe which versions differ from those of a recording; empty if none do.

    >>> other_versions({"mujoco": "3.3.0", "suite": "a"}, {"mujoco": "3.17.0", "suite": "a"})
    'recorded with mujoco 3.3.0, this is 3.17.0'
    """
    changed = [
        f"recorded with {name} {recorded[name]}, this is {now[name]}"
        for name in recorded
        if name in now and recorded[name] != now[name] and len(str(now[name])) < 40
    ]
    return "; ".join(changed)
