"""Cameras of a world: the agent's camera and the one at the wrist, by ray casting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.render import Frame, Light, Lighting, RayCamera, StillCamera, Texture, View
from clframe.worlds.render.color import encode
from clframe.worlds.render.view import camera_id
from clframe.worlds.tabletop.compiler import AGENT_CAMERA, textures
from clframe.worlds.tabletop.gripper import WRIST_CAMERA
from clframe.worlds.tabletop.world import World

CAMERAS = (AGENT_CAMERA, WRIST_CAMERA)
PERIODS = {"wood": 0.5, "marble": 0.8, "tiles": 0.5, "weave": 0.08}
_GLOW = np.array([0.95, 0.25, 0.08, 1.0])
# One lamp that throws shadows, at the robot's side so that the front stays readable.
LIGHTING = Lighting(
    lights=(
        Light(position=(0.6, -0.9, 2.0), intensity=0.72, color=(1.0, 0.97, 0.93)),
        Light(direction=(-0.5, 0.5, -0.8), intensity=0.22, shadow=False),
    )
)


class Cameras:
    """Takes images of one world.

    Args:
        world: What is seen.
        size: Pixels of a side.
        samples: Rays along each side of a pixel at edges; 1 is fastest.

    ``lighting`` may be set to another one at any time.
    """

    def __init__(self, world: World, size: int = 64, samples: int = 1) -> None:
        patterns: dict[str | int, Texture] = {
            geom: Texture(pattern, period=PERIODS[pattern])
            for geom, pattern in textures(world.plan).items()
        }
        self._world = world
        self._patterns = patterns
        self.lighting = LIGHTING
        self._lamps: list[tuple[int, str, NDArray[np.float32]]] = []
        for name, asset in world.plan.fixtures.items():
            if asset.lamp is not None:
                geom = world.model.geom(f"{name}:{asset.lamp}").id
                self._lamps.append((geom, name, np.array(world.model.geom_rgba[geom])))
        self._lit = [False] * len(self._lamps)
        self._camera = RayCamera(world.model, size, size, samples, patterns)
        self._numbers = {camera: camera_id(world.model, camera) for camera in CAMERAS}
        self._still = StillCamera(self._camera)

    def take(self, camera: str) -> Frame:
        """What a camera of the model sees now."""
        if self._camera.samples > 1:
            return self.without_memory(camera)
        return self.take_all([camera])[0]

    def take_all(self, cameras: Sequence[str]) -> list[Frame]:
        """What several cameras of the model see now, without finer rays at edges."""
        data, camera = self._world.data, self._camera
        self._switch_lamps()
        sights = []
        for name in cameras:
            # The agent's camera stands still, so most of its image stays as it was.
            looks = self._still if name == AGENT_CAMERA else camera
            sights.append(looks.look(data, self._view(name), self.lighting))
        lights = camera.develop(data, self.lighting, sights)
        return [sight.finish(encode(light)) for sight, light in zip(sights, lights, strict=True)]

    def without_memory(self, camera: str) -> Frame:
        """What a camera sees now with all rays cast, whatever was seen before."""
        self._switch_lamps()
        return self._camera.render(self._world.data, self._view(camera), self.lighting)

    def _view(self, camera: str) -> View:
        return View.of_camera(self._world.model, self._world.data, self._numbers[camera])

    def _switch_lamps(self) -> None:
        """Let devices that are on glow; the camera reads colors again only when one changes."""
        world = self._world
        lit = [world.holds(("turnon", name)) for _, name, _ in self._lamps]
        if lit == self._lit:
            return
        for on, (geom, _, color) in zip(lit, self._lamps, strict=True):
            world.model.geom_rgba[geom] = _GLOW if on else color
        self._lit = lit
        self.refresh()

    def refresh(self) -> None:
        """Read the model's colors again, after they were changed."""
        self._camera.set_model(self._world.model, self._patterns)
        self._still.forget()

    def observe(self, cameras: Sequence[str], depth: bool) -> dict[str, NDArray[Any]]:
        """Colors (H, W, 3) and, if wanted, depth in meters (H, W) of cameras, by name."""
        seen: dict[str, NDArray[Any]] = {}
        for camera, frame in zip(cameras, self.take_all(cameras), strict=True):
            seen[f"{camera}_rgb"] = frame.rgb
            if depth:
                seen[f"{camera}_depth"] = np.minimum(frame.depth, np.float32(10.0))
        return seen
