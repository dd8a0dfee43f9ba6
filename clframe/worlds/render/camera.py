"""An RGB-D camera that casts rays: runs wherever MuJoCo runs, without any GL library."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import SettingError
from clframe.worlds.render.boxes import Grid
from clframe.worlds.render.bundles import Fan, spread
from clframe.worlds.render.color import WHITE, encode
from clframe.worlds.render.frame import Frame
from clframe.worlds.render.lighting import Lighting
from clframe.worlds.render.patches import Floats, Patches, dot, joined, length
from clframe.worlds.render.rays import Caster, Hits
from clframe.worlds.render.shading import background, shade
from clframe.worlds.render.surface import Surfaces
from clframe.worlds.render.texture import Texture
from clframe.worlds.render.view import View, pixel_rays, pixel_size, plane_places, tiles

GROUPS = (0, 1, 2)
"""Geom groups that are seen; by custom the others hold collision shapes."""
CONTRAST = 20
"""Difference of a pixel to a neighbor, in 0..255, from which it is rendered in finer steps."""


Finish = Callable[[NDArray[np.uint8]], Frame]
"""Makes a frame of the colors (3, n) of a sight's rays."""


def no_frame(colors: NDArray[np.uint8]) -> Frame:
    """For rays that are a part of an image only."""
    raise NotImplementedError


@dataclass
class Sight:
    """What rays see, before light falls on it.

    Attributes:
        light: (3, n) float32, that of the background filled in.
        chosen: which rays met something.
        patches: what these met; None where none did.
        finish: makes a frame of the rays' colors.
    """

    light: Floats
    chosen: Any
    patches: Patches | None
    finish: Finish


class RayCamera:
    """Renders one model; cheap to construct, so take a new one for a new model.

    Args:
        model: the MuJoCo model.
        width: of the image in pixels.
        height: of the image in pixels.
        samples: rays along each side of a pixel: with 2 or more, a pixel whose color differs from
            a neighbor's is the mean of samples x samples rays. Depth and geoms are always those
            of the pixel's center, whatever this number.
        textures: textures by the name or number of a geom.
        groups: geom groups that are seen and cast shadows.
        contrast: difference to a neighbor, in 0..255, from which finer rays are cast; 0: always.
    """

    def __init__(
        self,
        model: Any,
        width: int = 64,
        height: int = 64,
        samples: int = 1,
        textures: Mapping[str | int, Texture] | None = None,
        groups: Sequence[int] = GROUPS,
        contrast: int = CONTRAST,
    ) -> None:
        check_size(width, height, samples)
        self.width, self.height, self.samples, self.contrast = width, height, samples, contrast
        self.groups = tuple(groups)
        # Rays are cast tile by tile, so that those that follow each other are neighbors.
        self.order, self.place = tiles(width, height)
        self.set_model(model, textures)

    def set_model(self, model: Any, textures: Mapping[str | int, Texture] | None = None) -> None:
        """Render another model from now on, with these textures."""
        self.model = model
        self.caster = Caster(model, self.groups)
        self._surfaces = Surfaces(model, textures or {})

    def render(
        self, data: Any, view: View, lighting: Lighting | None = None, rgb: bool = True
    ) -> Frame:
        """What the camera sees.

        Args:
            data: of the model, positions up to date (`mj_forward` or `mj_kinematics` was called).
            view: where the camera stands.
            lighting: the light; None is a well-lit room.
            rgb: whether to render colors; depth and geoms alone take a third of the time.
        """
        if not rgb:
            return self._frame(self._cast(data, view, normals=False)[1])
        lighting = lighting or Lighting()
        sight = self.look(data, view, lighting)
        (light,) = self.develop(data, lighting, [sight])
        if self.samples > 1:
            light = self._refine(data, view, lighting, light)
        return sight.finish(encode(light))

    def look(self, data: Any, view: View, lighting: Lighting) -> Sight:
        """What the camera sees, before light falls on it: several are developed together."""
        rays, hits = self._cast(data, view, normals=True)

        def finish(colors: NDArray[np.uint8]) -> Frame:
            frame = self._frame(hits)
            pixels = colors.T.take(self.place, axis=0)
            frame.colors = pixels.reshape(self.height, self.width, 3)
            return frame

        return self.sight(view, lighting, rays, hits, self.height, finish)

    def _cast(self, data: Any, view: View, normals: bool) -> tuple[NDArray[np.float64], Hits]:
        """Rays (3, n) of all pixels, tile by tile, and what they met."""
        rays = view.rotation @ pixel_rays(self.width, self.height, view.fovy)
        rays = rays.take(self.order, axis=1)
        return rays, self.caster.cast(data, view.position, rays.T, normals, fan=self.fan(view))

    def fan(self, view: View, chosen: NDArray[np.intp] | None = None) -> Fan:
        """Where rays of some pixels lead, numbered tile by tile; None: of all."""
        if chosen is None:
            return Fan(view.axes(), *_whole_spread(self.width, self.height, view.fovy))
        places = plane_places(self.width, self.height, view.fovy)
        return Fan(view.axes(), *spread(places.take(chosen, axis=1)))

    def pixels(self, view: View) -> Grid:
        """The image's own pixels as a grid."""
        side = pixel_size(self.height, view.fovy)
        low = np.array([-self.width * side / 2, -self.height * side / 2])
        shape = (self.height, self.width)
        return Grid(view.position, view.axes(), low, np.full(2, 1 / side), shape)

    def develop(self, data: Any, lighting: Lighting, sights: Sequence[Sight]) -> list[Floats]:
        """The light (3, n) that arrives along the rays of each sight.

        All are shaded at once, since most of the time goes into calls and not into numbers.
        """
        with_patches = [sight for sight in sights if sight.patches is not None]
        if with_patches:
            patches = joined([sight.patches for sight in with_patches if sight.patches])
            shaded = shade(self.caster, data, self._surfaces, lighting, patches)
            end = 0
            for sight in with_patches:
                assert sight.patches is not None
                begin, end = end, end + len(sight.patches.geom)
                sight.light[:, sight.chosen] = shaded[:, begin:end]
        for sight in sights:
            sight.light *= np.float32(lighting.exposure)
        return [sight.light for sight in sights]

    def _frame(self, hits: Hits) -> Frame:
        """Depth and geoms of hits that are stored tile by tile."""
        shape = (self.height, self.width)
        # The ray parameter is the depth.
        depth = np.where(hits.geom >= 0, hits.distance, 0).astype(np.float32)
        return Frame(depth[self.place].reshape(shape), hits.geom[self.place].reshape(shape))

    def sight(
        self,
        view: View,
        lighting: Lighting,
        rays: NDArray[np.float64],
        hits: Hits,
        height: int,
        finish: Finish = no_frame,
    ) -> Sight:
        """What rays (3, n) of an image of this height met."""
        directions = rays.astype(np.float32)
        directions /= length(directions)
        seen = np.flatnonzero(hits.geom >= 0)
        everything = len(seen) == len(hits.geom)
        light = np.empty_like(directions)
        if not everything:
            sky = np.flatnonzero(hits.geom < 0)
            light[:, sky] = background(directions[2].take(sky), lighting)
        if not len(seen):
            return Sight(light, slice(0), None, finish)
        assert hits.normal is not None
        chosen: Any
        if everything:
            chosen, distance, geom, normal = slice(None), hits.distance, hits.geom, hits.normal
        else:
            chosen, distance, geom = seen, hits.distance.take(seen), hits.geom.take(seen)
            normal, rays = hits.normal.take(seen, axis=0), rays.take(seen, axis=1)
            directions = directions.take(seen, axis=1)
        points = rays * distance
        points += view.position[:, None]
        normals = np.ascontiguousarray(normal.T, dtype=np.float32)
        towards_eye = -directions
        size = distance.astype(np.float32) * np.float32(pixel_size(height, view.fovy))
        # A patch seen at a slant is longer one way: the mean of both sides blurs least.
        size /= np.sqrt(np.maximum(dot(normals, towards_eye), np.float32(0.05)))
        patches = Patches(geom, points, normals, towards_eye, size)
        return Sight(light, chosen, patches, finish)

    def _refine(self, data: Any, view: View, lighting: Lighting, light: Floats) -> Floats:
        """Replace pixels that differ from a neighbor by the mean of finer rays."""
        colors = encode(light).T.take(self.place, axis=0)
        colors = colors.reshape(self.height, self.width, 3)
        n = self.samples
        rows, columns = np.nonzero(_differs(colors, self.contrast))
        if not len(rows):
            return light
        fine_width = self.width * n
        offsets = np.arange(n)
        fine_rows = (rows[:, None] * n + offsets)[:, :, None]
        fine_columns = (columns[:, None] * n + offsets)[:, None, :]
        places = (fine_rows * fine_width + fine_columns).reshape(-1)
        rays = view.rotation @ pixel_rays(fine_width, self.height * n, view.fovy)[:, places]
        hits = self.caster.cast(data, view.position, rays.T, normals=True)
        sight = self.sight(view, lighting, rays, hits, self.height * n)
        (fine,) = self.develop(data, lighting, [sight])
        # A highlight brighter than white must not outshine the rest of its pixel.
        fine = np.minimum(fine, np.float32(WHITE)).reshape(3, -1, n * n)
        light[:, self.place[rows * self.width + columns]] = fine.mean(axis=2)
        return light


@functools.lru_cache(maxsize=64)
def _whole_spread(
    width: int, height: int, fovy: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the bundles of a whole image lead."""
    return spread(plane_places(width, height, fovy))


def check_size(width: int, height: int, samples: int) -> None:
    """Refuse an image without pixels."""
    for name, value in (("width", width), ("height", height), ("samples", samples)):
        if value < 1:
            raise SettingError(f"A camera's {name} must be 1 or more, not {value}.")


def _differs(colors: NDArray[np.uint8], contrast: int) -> NDArray[np.bool_]:
    """Pixels (H, W) that differ from one of four neighbors by at least `contrast`."""
    signed = colors.astype(np.int16)
    differs = np.full(colors.shape[:2], contrast <= 0)
    across = (np.abs(np.diff(signed, axis=1)) >= contrast).any(axis=2)
    down = (np.abs(np.diff(signed, axis=0)) >= contrast).any(axis=2)
    differs[:, 1:] |= across
    differs[:, :-1] |= across
    differs[1:] |= down
    differs[:-1] |= down
    return differs
