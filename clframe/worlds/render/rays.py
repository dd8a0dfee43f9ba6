"""Casting many rays from one point with MuJoCo's own collision geometry: no GL library needed."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.render.bundles import Bundles, Fan, Out

EVERYWHERE = 1e6
"""Half the side in meters of a box that holds any scene."""
TILT = 1e-6
"""By how much of its length a ray is tilted to find a surface's normal by differences."""


@dataclass
class Hits:
    """What n rays met: the ray parameter of the hit, the geom (-1: none), the unit normal."""

    distance: NDArray[np.float64]
    geom: NDArray[np.int32]
    normal: NDArray[np.float64] | None


@functools.cache
def gives_normals() -> bool:
    """Whether the installed MuJoCo returns normals with its rays (3.5 and later)."""
    import mujoco

    return "normal:" in (mujoco.mj_multiRay.__doc__ or "")


def group_mask(groups: Sequence[int]) -> NDArray[np.uint8]:
    """MuJoCo's six flags of the geom groups that are seen."""
    return np.array([group in groups for group in range(6)], dtype=np.uint8)


class Caster:
    """Casts rays into one model.

    Args:
        model: the MuJoCo model.
        groups: geom groups that are seen.
    """

    def __init__(self, model: Any, groups: Sequence[int]) -> None:
        self.model = model
        self._groups = group_mask(groups)
        self.bundles = Bundles(model, self._groups)
        self._roots = _narrow_roots(model)
        self._sizes = np.array(model.bvh_aabb[self._roots, 3:])
        # An infinite plane's bounds are far below it: they may grow but not shrink.
        self._wide = np.maximum(self._sizes, EVERYWHERE)

    def cast(
        self,
        data: Any,
        origin: NDArray[np.float64],
        rays: NDArray[np.float64],
        normals: bool = False,
        by_differences: bool = False,
        fan: Fan | None = None,
    ) -> Hits:
        """Cast `rays` (n, 3), of any length, from `origin`.

        Args:
            data: of the model, with the positions of geoms up to date (`mj_forward` was called).
            origin: where all rays begin.
            rays: directions; a hit's distance counts in lengths of its ray.
            normals: whether to return the normals, which point against the ray.
            by_differences: find normals from neighboring rays even where MuJoCo gives them.
            fan: where the rays lead, if those that follow each other are neighbors: they are then
                cast in bundles, which is faster and finds the same.
        """
        rays = np.ascontiguousarray(rays)
        given = normals and gives_normals() and not by_differences
        normal = np.empty(rays.shape) if given else None
        distance, geom = np.empty(len(rays)), np.empty(len(rays), dtype=np.int32)
        if not gives_normals():
            self._one_by_one(data, origin, rays, distance, geom)
        elif len(rays):
            bundles, candidates = self.bundles, None
            out = (geom, distance, None if normal is None else normal.reshape(-1))
            if fan is not None:
                candidates = bundles.candidates(data, origin, rays, fan)
            if candidates is None:
                self._all_at_once(data, origin, rays, out)
            else:
                bundles.cast(data, origin, rays, candidates, out)
        if normals:
            if normal is None:
                normal = self._normals_by_differences(data, origin, rays, distance)
            # Thin sheets are seen from both sides; a normal is that of the side we see.
            away = np.einsum("ij,ij->i", normal, rays) > 0
            if away.any():
                normal[away] *= -1.0
        return Hits(distance, geom, normal)

    def _all_at_once(
        self, data: Any, origin: NDArray[np.float64], rays: NDArray[np.float64], out: Out
    ) -> None:
        import mujoco

        with self._widened():
            mujoco.mj_multiRay(
                self.model, data, origin, rays.reshape(-1), self._groups, True, -1,
                *out, len(rays), mujoco.mjMAXVAL,
            )  # fmt: skip

    @contextmanager
    def _widened(self) -> Iterator[None]:
        """Wide bounds for the length of a call, so that physics finds the model as it was."""
        if not len(self._roots):
            yield
            return
        self.model.bvh_aabb[self._roots, 3:] = self._wide
        try:
            yield
        finally:
            self.model.bvh_aabb[self._roots, 3:] = self._sizes

    def _one_by_one(
        self,
        data: Any,
        origin: NDArray[np.float64],
        rays: NDArray[np.float64],
        distance: NDArray[np.float64],
        geom: NDArray[np.int32],
    ) -> None:
        """Slow but right: before 3.5 `mj_multiRay` overlooks parts of wide geoms close by."""
        import mujoco

        seen = np.empty(1, dtype=np.int32)
        for k, ray in enumerate(rays):
            distance[k] = mujoco.mj_ray(self.model, data, origin, ray, self._groups, True, -1, seen)
            geom[k] = seen[0]

    def _normals_by_differences(
        self,
        data: Any,
        origin: NDArray[np.float64],
        rays: NDArray[np.float64],
        distance: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Normals from where two slightly tilted copies of each ray hit.

        The tilt is so small that the copies meet the same face but for rays that graze an edge.
        """
        length = np.linalg.norm(rays, axis=1, keepdims=True)
        # The coordinate axis a ray is least aligned with is never parallel to it.
        axis = np.eye(3)[np.abs(rays).argmin(axis=1)]
        side = np.cross(rays, axis)
        side *= TILT * length / np.linalg.norm(side, axis=1, keepdims=True)
        over = np.cross(rays, side) / length
        hits = distance[:, None] * rays
        edges = []
        for tilt in (side, over):
            tilted = rays + tilt
            moved = self.cast(data, origin, tilted).distance
            edges.append(moved[:, None] * tilted - hits)
        normal = np.cross(edges[0], edges[1])
        size = np.linalg.norm(normal, axis=1, keepdims=True)
        # A copy that flew past the edge tells nothing: such a point counts as facing the viewer.
        good = (size > 0) & (distance[:, None] >= 0)
        return np.where(good, normal / np.where(good, size, 1.0), -rays / length)


def _narrow_roots(model: Any) -> NDArray[np.intp]:
    """Bounding volumes that do not enclose all geoms of their body.

    MuJoCo bounds the geoms that can collide, and `mj_multiRay` passes over a body whose bounds a
    ray misses: geoms for the eye only that reach out of them would be clipped.
    """
    body = np.asarray(model.geom_bodyid)
    for_the_eye = (np.asarray(model.geom_contype) == 0) & (np.asarray(model.geom_conaffinity) == 0)
    roots = np.asarray(model.body_bvhadr)[np.unique(body[for_the_eye])]
    return np.asarray(roots[roots >= 0], dtype=np.intp)
