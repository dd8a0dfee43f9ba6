"""Pictures of a world: the agent's camera and the one at the wrist, by ray casting."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.render import Frame, Light, Lighting, RayCamera, Texture, View
from clframe.streams.tabletop.compiler import AGENT_CAMERA, textures
from clframe.streams.tabletop.gripper import WRIST_CAMERA
from clframe.streams.tabletop.world import World

CAMERAS = (AGENT_CAMERA, WRIST_CAMERA)
_PERIODS = {"wood": 0.5, "marble": 0.8, "tiles": 0.5, "weave": 0.08}
_GLOW = np.array([0.95, 0.25, 0.08, 1.0])
# One lamp that throws shadows, at the robot's side so that the front stays readable.
LIGHTING = Lighting(
    lights=(
        Light(position=(0.6, -0.9, 2.0), intensity=0.72, color=(1.0, 0.97, 0.93)),
        Light(direction=(-0.5, 0.5, -0.8), intensity=0.22, shadow=False),
    )
)


class Pictures:
    """Takes pictures of one world.

    Args:
        world: What is seen.
        size: Pixels of a side.
        samples: Rays along each side of a pixel at edges; 1 is fastest.

    ``lighting`` may be set to another one at any time.
    """

    def __init__(self, world: World, size: int = 64, samples: int = 1) -> None:
        patterns: dict[str | int, Texture] = {
            geom: Texture(pattern, period=_PERIODS[pattern])
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

    def take(self, camera: str) -> Frame:
        """What a camera of the model sees now."""
        world = self._world
        self._switch_lamps()
        view = View.of_camera(world.model, world.data, camera)
        return self._camera.render(world.data, view, self.lighting)

    def _switch_lamps(self) -> None:
        """Let devices that are on glow; the camera reads colors anew only when one changes."""
        world = self._world
        lit = [world.holds(("turnon", name)) for _, name, _ in self._lamps]
        if lit == self._lit:
            return
        for on, (geom, _, color) in zip(lit, self._lamps, strict=True):
            world.model.geom_rgba[geom] = _GLOW if on else color
        self._lit = lit
        self.refresh()

    def refresh(self) -> None:
        """Read the model's colors anew, after they were changed."""
        self._camera.set_model(self._world.model, self._patterns)

    def rgbd(self, camera: str) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Colors (H, W, 3) and depth in meters (H, W)."""
        frame: Any = self.take(camera)
        return frame.rgb, np.minimum(frame.depth, np.float32(10.0))
