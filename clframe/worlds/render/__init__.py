"""RGB-D images of MuJoCo scenes by casting rays, for rendered and robot streams.

An image of a MuJoCo model needs a `View`, a camera and nothing else, least of all a GL library:
`RayCamera(model, 64, 64).render(data, View.look_at(position, target))` is a `Frame` with `rgb`,
`depth` and `geom`. Nothing here imports MuJoCo before an image is taken.
"""

from __future__ import annotations

from typing import Any

from clframe.errors import SettingError
from clframe.worlds.render.camera import RayCamera
from clframe.worlds.render.frame import Frame
from clframe.worlds.render.gl import GLCamera, GLError
from clframe.worlds.render.lighting import Light, Lighting
from clframe.worlds.render.noise import depth_noise, sensor_noise
from clframe.worlds.render.still import StillCamera
from clframe.worlds.render.texture import PATTERNS, Texture
from clframe.worlds.render.view import View

__all__ = [
    "PATTERNS",
    "Frame",
    "GLCamera",
    "GLError",
    "Light",
    "Lighting",
    "RayCamera",
    "StillCamera",
    "Texture",
    "View",
    "camera",
    "depth_noise",
    "sensor_noise",
]


def camera(renderer: str, model: Any, *args: Any, **settings: Any) -> RayCamera | GLCamera:
    """A camera by the name of its renderer.

    Args:
        renderer: "ray", which runs everywhere, or "gl", where a GL library is installed.
        model: the MuJoCo model.
        *args: as of `RayCamera`.
        **settings: as of `RayCamera`.
    """
    if renderer == "ray":
        return RayCamera(model, *args, **settings)
    if renderer == "gl":
        return GLCamera(model, *args, **settings)
    raise SettingError(f"There is no renderer {renderer!r}; take 'ray' or 'gl'.")
