"""What a worker process does for vectorised environments: it holds some of them and steps them.

Light on purpose: worker processes import it and have no use for torch.
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
    """Makes a task's environment; see :class:`CheckedEnvironment` for what it is given."""

    robot: RobotTask
    state_size: int
    action_size: int
    discrete: bool = False
    mask: slice | None = None

    def __call__(self) -> CheckedEnvironment:
        """An environment of its own."""
        return CheckedEnvironment(
            self.robot, self.state_size, self.action_size, self.discrete, self.mask
        )


_held: dict[tuple[str, int], CheckedEnvironment] = {}
"""By whose it is and the number of its slot."""


def begin(
    key: str, make: Maker, episodes: Mapping[int, tuple[int, NDArray[Any]]]
) -> dict[int, NDArray[np.float32]]:
    """Begin an episode in each of these slots by its seed and do the actions; gives all states."""
    seen = {}
    for slot, (seed, actions) in episodes.items():
        if (key, slot) not in _held:
            _held[key, slot] = make()
        environment = _held[key, slot]
        states = [environment.reset(seed)]
        states += [environment.step(action).state for action in actions]
        seen[slot] = np.stack(states)
    return seen


def step(key: str, actions: Mapping[int, Any]) -> dict[int, Moment]:
    """Do one action in each of these slots."""
    return {slot: _held[key, slot].step(action) for slot, action in actions.items()}


def forget(key: str) -> None:
    """Give up the environments of whoever has this key."""
    for place in [place for place in _held if place[0] == key]:
        _held.pop(place).close()
