"""A point on a plane that has to be moved to a place: the smallest robot there is.

No simulator is needed, so learning by imitation or by reward can be tried and tested in seconds.
In task ``k`` of ``n`` the place is where the shown goal ends up when the plane is turned by
``k / n`` of a full turn: the same sight asks for another action in every task.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.environment import Environment

STATE_SIZE, ACTION_SIZE = 4, 2
NEAR = 0.1
_STRIDE = 0.1


class PointEnvironment(Environment):
    """Move by up to 0.1 each way a step; the goal is reached within 0.1 of its place.

    Args:
        task: Which one.
        of: How many there are.
    """

    def __init__(self, task: int, of: int) -> None:
        turn = 2 * math.pi * task / of
        self._turn = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
        self.position, self.goal = np.zeros(2), np.zeros(2)
        self.render_mode: str | None = None

    @property
    def place(self) -> NDArray[np.float64]:
        """Where the point has to go."""
        return self._turn @ self.goal

    def _observe(self) -> dict[str, NDArray[Any]]:
        return {"state": np.concatenate([self.position, self.goal]).astype(np.float32)}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Begin an episode near the middle, with a goal on a ring around it."""
        draw = np.random.default_rng(seed)
        self.position = draw.uniform(-0.2, 0.2, 2)
        angle, radius = draw.uniform(0, 2 * math.pi), draw.uniform(0.6, 1.0)
        self.goal = radius * np.array([math.cos(angle), math.sin(angle)])
        return self._observe(), {"success": False}

    def step(
        self, action: NDArray[Any]
    ) -> tuple[dict[str, NDArray[Any]], float, bool, bool, dict[str, Any]]:
        """Move; the reward is how much nearer the place is now, in strides, and 1 more at it."""
        before = float(np.linalg.norm(self.position - self.place))
        self.position = self.position + _STRIDE * np.clip(action, -1.0, 1.0)
        distance = float(np.linalg.norm(self.position - self.place))
        near = distance < NEAR
        reward = (before - distance) / _STRIDE + near
        return self._observe(), reward, False, False, {"success": near}

    def render(self) -> NDArray[np.uint8] | None:
        """An image: the point dark, the shown goal light, its place green."""
        if self.render_mode is None:
            return None
        image = np.full((96, 96, 3), 240, np.uint8)
        for spot, color in (
            (self.goal, (190, 200, 230)),
            (self.place, (60, 160, 80)),
            (self.position, (40, 40, 60)),
        ):
            x, y = np.clip(((spot + 1.3) / 2.6 * 95).astype(int), 3, 92)
            image[95 - y - 3 : 95 - y + 4, x - 3 : x + 4] = color
        return image


def expert(environment: Any) -> Iterator[NDArray[Any]]:
    """Straight to the place."""
    while True:
        yield np.clip((environment.place - environment.position) / _STRIDE, -1.0, 1.0)
