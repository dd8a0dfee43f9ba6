"""The same camera on MuJoCo's OpenGL renderer, for machines that have EGL, OSMesa or a display."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import ClframeError
from clframe.worlds.render.camera import GROUPS, check_size
from clframe.worlds.render.color import encode
from clframe.worlds.render.frame import Frame
from clframe.worlds.render.lighting import Light, Lighting
from clframe.worlds.render.patches import length
from clframe.worlds.render.rays import group_mask
from clframe.worlds.render.shading import background
from clframe.worlds.render.texture import Texture
from clframe.worlds.render.view import View, pixel_rays

SHADOW_MAP = 1024
"""Side of the shadow map; MuJoCo's default of 4096 costs 140 ms an image without a GPU."""


class GLError(ClframeError):
    """No OpenGL context is available on this machine."""


class GLCamera:
    """Renders one model with OpenGL; takes the arguments of `RayCamera`.

    Depth and geoms agree with those of `RayCamera`. Colors are MuJoCo's own: its shading, the
    textures of the model's materials and none of ours. Call `close` when done.
    """

    def __init__(
        self,
        model: Any,
        width: int = 64,
        height: int = 64,
        samples: int = 1,
        textures: Mapping[str | int, Texture] | None = None,
        groups: Sequence[int] = GROUPS,
    ) -> None:
        check_size(width, height, samples)
        self.width, self.height, self.samples = width, height, samples
        self._groups = group_mask(groups)
        self._renderer: Any = None
        self.set_model(model)

    def set_model(self, model: Any, textures: Mapping[str | int, Texture] | None = None) -> None:
        """Render another model from now on."""
        import mujoco

        self.close()
        self.model = model
        with _quality(model, self.width, self.height, self.samples):
            try:
                self._renderer = mujoco.Renderer(model, self.height, self.width)
            except Exception as error:  # each back end fails in its own way
                raise GLError(
                    "renderer=gl needs OpenGL, which this machine does not offer; set MUJOCO_GL to "
                    f"egl or osmesa where one is installed, or take renderer=ray ({error!r})."
                ) from error
        self._option = mujoco.MjvOption()
        self._option.geomgroup[:] = self._groups
        self._option.sitegroup[:] = 0
        self._option.flags[:] = 0
        for shown in (mujoco.mjtVisFlag.mjVIS_STATIC, mujoco.mjtVisFlag.mjVIS_TEXTURE):
            self._option.flags[shown] = 1

    def render(
        self, data: Any, view: View, lighting: Lighting | None = None, rgb: bool = True
    ) -> Frame:
        """What the camera sees; see `RayCamera.render`."""
        import mujoco

        renderer = self._renderer
        if renderer is None:
            raise GLError("This camera was closed; make a new one or give it a model.")
        renderer.update_scene(data, scene_option=self._option)
        _place(renderer.scene, view)
        renderer.enable_segmentation_rendering()
        seen = renderer.render()
        geom = np.where(seen[..., 1] == int(mujoco.mjtObj.mjOBJ_GEOM), seen[..., 0], -1)
        renderer.enable_depth_rendering()
        depth = np.where(geom >= 0, renderer.render(), 0)
        frame = Frame(depth.astype(np.float32), geom.astype(np.int32))
        if rgb:
            renderer.disable_depth_rendering()
            lighting = lighting or Lighting()
            _illuminate(renderer.scene, lighting)
            frame.colors = renderer.render()
            frame.colors[geom < 0] = self._sky(view, lighting)[geom < 0]
        return frame

    def _sky(self, view: View, lighting: Lighting) -> NDArray[np.uint8]:
        """The background alone, which OpenGL leaves black."""
        rays = (view.rotation @ pixel_rays(self.width, self.height, view.fovy)).astype(np.float32)
        light = background(rays / length(rays), lighting) * np.float32(lighting.exposure)
        return encode(light).T.reshape(self.height, self.width, 3)

    def close(self) -> None:
        """Free the OpenGL context."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


@contextlib.contextmanager
def _quality(model: Any, width: int, height: int, samples: int) -> Iterator[None]:
    """The model's offscreen settings as we need them while a context is made, then as they were."""
    quality, window = model.vis.quality, model.vis.global_
    before = (quality.shadowsize, quality.offsamples, window.offwidth, window.offheight)
    quality.shadowsize = min(quality.shadowsize, SHADOW_MAP)
    quality.offsamples = 0 if samples == 1 else samples**2
    window.offwidth, window.offheight = max(before[2], width), max(before[3], height)
    try:
        yield
    finally:
        quality.shadowsize, quality.offsamples, window.offwidth, window.offheight = before


def _place(scene: Any, view: View) -> None:
    """Move both eyes of a scene's camera to a view."""
    for eye in scene.camera:
        eye.pos[:] = view.position
        eye.forward[:] = -view.rotation[:, 2]
        eye.up[:] = view.rotation[:, 1]
        top = eye.frustum_near * math.tan(math.radians(view.fovy) / 2)
        eye.frustum_center, eye.frustum_width = 0.0, 0.0
        eye.frustum_top, eye.frustum_bottom = top, -top


def _illuminate(scene: Any, lighting: Lighting) -> None:
    """Replace a scene's lights by ours."""
    # Ambient light is a property of lights here, and shadows take it away with theirs: an extra
    # light without shadow and without a beam carries it.
    ambient = Light(direction=(0, 0, -1), intensity=0, shadow=False)
    lights = (*lighting.lights, ambient)
    scene.nlight = len(lights)
    for number, light in enumerate(lights):
        shown = scene.lights[number]
        origin = light.origin()
        shown.pos[:] = origin
        shown.dir[:] = -origin / max(float(np.linalg.norm(origin)), 1e-9)
        shown.attenuation[:] = (1, 0, 0)
        shown.cutoff, shown.exponent, shown.headlight = 80, 0, 0
        sun = light.position is None
        if hasattr(shown, "type"):  # older versions of MuJoCo have a flag instead
            shown.type = int(sun)  # spot 0, directional 1
        else:
            shown.directional = sun
        shown.castshadow = light.shadow
        strength = lighting.exposure * light.intensity
        shown.diffuse[:] = strength * np.asarray(light.color)
        shown.specular[:] = 0.3 * strength
        around = np.asarray(lighting.ambient) if light is ambient else 0.0
        shown.ambient[:] = lighting.exposure * around
