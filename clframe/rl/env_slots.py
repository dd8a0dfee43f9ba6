"""The part of vectorised environments that runs in a worker process, which steps them.

Worker processes import this module, so it does not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.rl.environment import CheckedEnvironment, Moment
from clframe.robot.task import RobotTask


@dataclass(frozen=True)
class Maker:
    """Creates a task's environment; see :class:`CheckedEnvironment` for the arguments."""

    robot: RobotTask
    state_size: int
    action_size: int
    discrete: bool = False
    mask: slice | None = None

    def __call__(self) -> CheckedEnvironment:
        """Return a new environment."""
        return CheckedEnvironment(
            self.robot, self.state_size, self.action_size, self.discrete, self.mask
        )


_held: dict[tuple[str, int], CheckedEnvironment] = {}
"""Environments by key and slot."""


def begin(
    key: str, make: Maker, episodes: Mapping[int, tuple[int, NDArray[Any]]]
) -> dict[int, NDArray[np.float32]]:
    """Begin an episode in each of these slots and repeat its actions; return all states."""
    states_of = {}
    for slot, (seed, actions) in episodes.items():
        if (key, slot) not in _held:
            _held[key, slot] = make()
        environment = _held[key, slot]
        states = [environment.reset(seed)]
        states += [environment.step(action).state for action in actions]
        states_of[slot] = np.stack(states)
    return states_of


def step(key: str, actions: Mapping[int, Any]) -> dict[int, Moment]:
    """Do one action in each of these slots."""
    return {slot: _held[key, slot].step(action) for slot, action in actions.items()}


def forget(key: str) -> None:
    """Close the environments under this key."""
    for held_key in [held_key for held_key in _held if held_key[0] == key]:
        _held.pop(held_key).close()
