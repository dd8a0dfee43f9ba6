"""Images through the agent's eyes, in place of the full state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import SettingError
from clframe.worlds.bddl import Problem
from clframe.worlds.behavior import observation
from clframe.worlds.behavior.dollhouse import Dollhouse
from clframe.worlds.behavior.env import HORIZON, BehaviorEnv, Observation
from clframe.worlds.render import Light, Lighting, RayCamera, Texture, View

HEAD = 1.5
"""Height of the agent's eyes, in meters."""
FAR = 20.0
"""Depth of what is farther, in meters."""
_FOV = 75.0
_DISTANCE = 1.3
_LIGHTING = Lighting(
    lights=(
        Light(direction=(0.25, 0.35, -0.9), intensity=0.65, shadow=False),
        Light(direction=(-0.6, -0.3, -0.5), intensity=0.35, shadow=False),
    )
)
_PERIODS = {"tiles": 1.0, "wood": 1.5}


class EgocentricEnv(BehaviorEnv):
    """One activity without physics, seen by an RGB-D camera at the agent's head.

    The camera looks at what the last primitive was done to; at the start, into the room. Rooms,
    furniture and things are boxes at their poses, a closed container hides what is in it, and
    marks show what is open, on, dirty or wet. Observations are ``rgb`` (uint8), ``depth`` (meters)
    and ``agent`` (proprioception, as in `BehaviorEnv`). Actions, rewards and ends are those of
    `BehaviorEnv`.

    Args:
        problem: An activity as read by `clframe.worlds.bddl`, or (corpus, name) of a published one.
        instance: The seed of the start that resets without a seed lead to.
        horizon: Steps until the episode is cut off.
        size: Pixels of an image's side.
        slots: How many things actions can name; None takes as many as the household has.
        record: Whether to keep what the efficiency metrics need.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  Gymnasium's own

    def __init__(
        self,
        problem: Problem | tuple[str, str],
        instance: int = 0,
        horizon: int = HORIZON,
        size: int = 64,
        slots: int | None = None,
        record: bool = False,
    ) -> None:
        from gymnasium import spaces

        if size < 8:
            raise SettingError(f"size is a number of pixels from 8 up, not {size}.")
        self.size = size
        self._houses: dict[tuple[int, int, int], tuple[Dollhouse, RayCamera]] = {}
        self._point: tuple[float, float, float] | None = None
        super().__init__(problem, instance, horizon, slots, record)
        seen: spaces.Space[Any] = spaces.Dict(
            {
                "rgb": spaces.Box(0, 255, (size, size, 3), np.uint8),
                "depth": spaces.Box(0.0, FAR, (size, size), np.float32),
                "agent": spaces.Box(-np.inf, np.inf, (observation.AGENT_SIZE,), np.float32),
            }
        )
        self.observation_space = seen

    def _take(self, seed: int) -> None:
        super()._take(seed)
        self._point = None

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Do one primitive, and look at what it was done to."""
        slot = int(action) % self.slots
        names = self.household.names
        seen = slot < len(names) and slot != self.household.agent and not self.household.floor[slot]
        if seen and slot not in self.state.hands:
            self._point = self._middle(slot)  # where a thing is before it is taken
        # What is let go lies on the floor around: look into the room.
        if seen and slot in self.state.hands:
            self._point = None
        return super().step(action)

    def save(self) -> dict[str, Any]:
        """What `restore` needs to come back to this moment, as plain values."""
        return {**super().save(), "looked_at": self._point}

    def restore(self, saved: dict[str, Any]) -> Observation:
        """Restore a saved state; a recording starts again there."""
        super().restore(saved)
        point = saved["looked_at"]
        self._point = None if point is None else (point[0], point[1], point[2])
        return self._observe()

    def _middle(self, slot: int) -> tuple[float, float, float]:
        x, y, z = self.state.position[slot]
        return x, y, z + 0.5 * self.household.half[slot][2]

    def _observe(self) -> Observation:
        rgb, depth = self.look(self.size)
        return {"rgb": rgb, "depth": depth, "agent": observation.agent(self.state)}

    def look(self, size: int, samples: int = 1) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """What the agent sees now: colors (H, W, 3) and depth in meters (H, W).

        Args:
            size: Pixels of a side.
            samples: Rays along each side of a pixel at edges.
        """
        house, camera = self._house(size, samples)
        target = self._target()
        eye = np.array([*self.state.base, HEAD])
        way = (target - eye) * [1, 1, 0]
        length = float(np.linalg.norm(way))
        facing = way / length if length > 1e-6 else np.array([0.0, 1.0, 0.0])
        # The agent may stand within furniture; its eyes keep a distance from what they look at.
        eye -= max(0.0, _DISTANCE - length) * facing
        house.show(self.state, eye, facing)
        view = View.look_at(eye, target, _FOV)
        frame = camera.render(house.data, view, _LIGHTING)
        depth = np.where(frame.geom < 0, FAR, np.minimum(frame.depth, FAR))
        return frame.rgb, depth.astype(np.float32)

    def _house(self, size: int, samples: int) -> tuple[Dollhouse, RayCamera]:
        key = (self.instance.seed, size, samples)
        if key not in self._houses:
            house = Dollhouse(self.household, self.instance.start)
            patterns: dict[str | int, Texture] = {
                geom: Texture(pattern, period=_PERIODS[pattern])
                for geom, pattern in house.textures.items()
            }
            self._houses[key] = house, RayCamera(house.model, size, size, samples, patterns)
        return self._houses[key]

    def _target(self) -> NDArray[np.float64]:
        """What the camera looks at."""
        if self._point is not None:
            return np.array(self._point)
        area = self.household.areas[self.state.area]
        (x, y), half = area.center, area.half
        far = y - half if self.state.base[1] > y else y + half
        return np.array([x, far, 0.8])
