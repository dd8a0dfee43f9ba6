"""A camera that stands still: only pixels that may have changed are cast again.

Everything that rests is rendered once, without what moves, and kept. A frame casts rays only where
the bounding box of something that moves is seen, and shades again only where such a box may be in
the light's way as well. The images are those of `RayCamera`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.render.boxes import Grid
from clframe.worlds.render.camera import RayCamera, Sight
from clframe.worlds.render.color import encode
from clframe.worlds.render.frame import Frame
from clframe.worlds.render.lighting import Lighting
from clframe.worlds.render.rays import Hits
from clframe.worlds.render.shadows import seen_from
from clframe.worlds.render.view import View, pixel_rays

_REST = 20
"""Frames after which something that has not moved is rendered with what rests."""


@dataclass(eq=False)
class Layer:
    """What rests, as it was rendered without what moves.

    Attributes:
        rests: which geoms are in it.
        poses: (geoms, 12), places and rotations of all geoms when it was rendered.
        hits: what the rays of all pixels met, tile by tile, as all that follows.
        colors: (n, 3), of all pixels.
        rays: (3, n), of all pixels.
        pixels: the image itself as a grid.
        grids: for each lamp that throws shadows a grid on which all points are seen from it, and
            the cell that each pixel's point is in; None where there is no such grid.
    """

    rests: NDArray[np.bool_]
    poses: NDArray[np.float64]
    hits: Hits
    colors: NDArray[np.uint8]
    rays: NDArray[np.float64]
    pixels: Grid
    grids: list[tuple[Grid, NDArray[np.intp]] | None]


class StillCamera:
    """Renders like a `RayCamera` whose view changes seldom.

    Args:
        camera: renders; without finer rays at edges (`samples` is 1).
    """

    def __init__(self, camera: RayCamera) -> None:
        self.camera = camera
        self._layer: Layer | None = None
        self._view: tuple[Any, ...] = ()
        self._before: NDArray[np.float64] | None = None
        self._still = np.zeros(0, dtype=int)

    def forget(self) -> None:
        """Render everything again with the next image: after colors or lights have changed."""
        self._layer = None

    def render(self, data: Any, view: View, lighting: Lighting) -> Frame:
        """What the camera sees; see `RayCamera.render`."""
        if self.camera.samples > 1:
            return self.camera.render(data, view, lighting)
        sight = self.look(data, view, lighting)
        (light,) = self.camera.develop(data, lighting, [sight])
        return sight.finish(encode(light))

    def look(self, data: Any, view: View, lighting: Lighting) -> Sight:
        """What may have changed, before light falls on it; see `RayCamera.look`."""
        camera = self.camera
        poses = np.concatenate([data.geom_xpos, data.geom_xmat], axis=1)
        layer = self._layer_for(data, view, lighting, poses)
        kept, rays, bundles = layer.hits, layer.rays, camera.caster.bundles
        moves = bundles.boxes.bounded & bundles.visible() & ~layer.rests
        corners = bundles.boxes.corners(data)[:, :, moves]
        # The layer is stored tile by tile.
        seen = layer.pixels.cover(corners).reshape(-1).take(camera.order)
        cast = seen.nonzero()[0]
        some = rays.take(cast, axis=1).T
        fan = camera.fan(view, cast)
        fresh = camera.caster.cast(data, view.position, some, normals=True, fan=fan)
        anew = self._shaded_anew(layer, corners)
        # Rays that went past what moves have found what was there.
        other = (fresh.geom != kept.geom[cast]) | (fresh.distance != kept.distance[cast])
        shaded = (other | anew[cast]).nonzero()[0]
        again = (anew & ~seen & (kept.geom >= 0)).nonzero()[0]
        chosen = np.concatenate([cast[shaded], again])
        hits = _joined(fresh, shaded, kept, again)

        def finish(colors: NDArray[np.uint8]) -> Frame:
            pixels, depth, geom = layer.colors.copy(), kept.distance.copy(), kept.geom.copy()
            pixels[chosen] = colors.T
            depth[cast], geom[cast] = fresh.distance, fresh.geom
            shape, place = (camera.height, camera.width), camera.place
            meters = np.where(geom >= 0, depth, 0).astype(np.float32)[place]
            pixels = pixels.take(place, axis=0).reshape(*shape, 3)
            return Frame(meters.reshape(shape), geom[place].reshape(shape), pixels)

        return camera.sight(view, lighting, rays.take(chosen, axis=1), hits, camera.height, finish)

    @staticmethod
    def _shaded_anew(layer: Layer, corners: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Pixels whose points may be in the shadow of what moves."""
        anew = np.zeros(len(layer.colors), dtype=bool)
        for lamp in layer.grids:
            if lamp is None:
                return np.ones(len(layer.colors), dtype=bool)
            grid, cell = lamp
            anew |= grid.cover(corners).reshape(-1).take(cell)
        return anew

    def _layer_for(
        self, data: Any, view: View, lighting: Lighting, poses: NDArray[np.float64]
    ) -> Layer:
        """The layer of all that rests, rendered again where something in it has moved."""
        where = (view.position.tobytes(), view.rotation.tobytes(), view.fovy, lighting)
        layer, before = self._layer, self._before
        self._before = poses
        if layer is None or before is None or self._view != where:
            self._view = where
            self._still = np.zeros(len(poses), dtype=int)
            return self._made(data, view, lighting, poses, self._jointless())
        moved = (poses != before).any(axis=1)
        self._still = np.where(moved, 0, self._still + 1)
        gone = layer.rests & (poses != layer.poses).any(axis=1)
        if gone.any():
            # Furniture that is not on a joint moves only when an episode begins.
            new_start = bool((gone & self._fixed()).any())
            rests = self._jointless() if new_start else layer.rests & ~gone
            return self._made(data, view, lighting, poses, rests)
        settled = ~layer.rests & (self._still >= _REST)
        if settled.any():
            return self._made(data, view, lighting, poses, layer.rests | settled)
        return layer

    def _fixed(self) -> NDArray[np.bool_]:
        """Geoms of bodies that no joint moves."""
        model = self.camera.model
        return np.asarray(model.body_weldid[model.geom_bodyid] == 0)

    def _jointless(self) -> NDArray[np.bool_]:
        """What is expected to rest: all but trees of bodies that are free to move."""
        import mujoco

        model = self.camera.model
        free = model.jnt_bodyid[model.jnt_type == mujoco.mjtJoint.mjJNT_FREE]
        roots = np.concatenate([free, np.flatnonzero(model.body_mocapid >= 0)])
        return ~np.isin(model.body_rootid[model.geom_bodyid], roots)

    def _made(
        self,
        data: Any,
        view: View,
        lighting: Lighting,
        poses: NDArray[np.float64],
        rests: NDArray[np.bool_],
    ) -> Layer:
        camera = self.camera
        rays = view.rotation @ pixel_rays(camera.width, camera.height, view.fovy)
        rays = rays.take(camera.order, axis=1)
        with self._hidden(~rests):
            hits = camera.caster.cast(data, view.position, rays.T, normals=True)
            sight = camera.sight(view, lighting, rays, hits, camera.height)
            (light,) = camera.develop(data, lighting, [sight])
        points = view.position[:, None] + rays * np.where(hits.geom >= 0, hits.distance, 1.0)
        grids = [
            seen_from(light.origin(), points - light.origin()[:, None])
            for light in lighting.lights
            if light.shadow and light.intensity
        ]
        colors = np.ascontiguousarray(encode(light).T)
        self._layer = Layer(rests, poses, hits, colors, rays, camera.pixels(view), grids)
        return self._layer

    @contextmanager
    def _hidden(self, geoms: NDArray[np.bool_]) -> Iterator[None]:
        """Without these geoms, for a while."""
        camera = self.camera
        groups = np.array(camera.model.geom_group)
        unseen = next(group for group in range(6) if group not in camera.groups)
        camera.model.geom_group[geoms] = unseen
        try:
            yield
        finally:
            camera.model.geom_group[:] = groups


def _joined(fresh: Hits, some: NDArray[np.intp], kept: Hits, others: NDArray[np.intp]) -> Hits:
    """Some of the fresh hits, then some of the kept ones."""
    assert fresh.normal is not None
    assert kept.normal is not None
    return Hits(
        np.concatenate([fresh.distance[some], kept.distance[others]]),
        np.concatenate([fresh.geom[some], kept.geom[others]]),
        np.concatenate([fresh.normal[some], kept.normal[others]]),
    )
