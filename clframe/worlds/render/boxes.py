"""Where bounding boxes of geoms are seen from a point: which rays may meet which geoms at all."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NEAR = 1e-3
"""Meters ahead from which a corner of a box has a place in the image."""
_MARGIN = 1e-6
"""Meters that are added to boxes, for rounding."""
_SIGNS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
_EDGES = np.array([[i, i | bit] for i in range(8) for bit in (1, 2, 4) if not i & bit])
"""The corners at the ends of a box's edges, (12, 2)."""


@dataclass(frozen=True, eq=False)
class Grid:
    """An image plane one meter ahead of a point, cut into cells.

    Attributes:
        origin: the point.
        axes: (3, 3), its rows the directions right, down and ahead.
        low: where the first cell begins, (2,): to the right and down.
        scale: cells a meter, (2,).
        shape: rows and columns of cells.
    """

    origin: NDArray[np.float64]
    axes: NDArray[np.float64]
    low: NDArray[np.float64]
    scale: NDArray[np.float64]
    shape: tuple[int, int]

    def cover(self, corners: NDArray[np.float64]) -> NDArray[np.bool_]:
        """In which cells one of the boxes with these corners (3, 8, k) may be seen.

        Of a box that reaches behind the point the part ahead counts; one that the point is in, or
        all but in, is seen in all cells.
        """
        rows, columns = self.shape
        reach = np.abs(self.low) + np.array([columns, rows]) / self.scale
        low, high = bounds(along(self.axes, self.origin, corners), reach)
        # A cell more on each side: rounding must not lose a ray.
        start, scale = self.low[:, None], self.scale[:, None]
        left, top = np.floor((low - start) * scale) - 1
        right, bottom = np.floor((high - start) * scale) + 1
        across, down = _counted(columns), _counted(rows)
        in_columns = ((across >= left) & (across <= right)).astype(np.float32)
        in_rows = ((down >= top) & (down <= bottom)).astype(np.float32)
        # By row and column how many boxes are in both.
        return np.asarray(in_rows @ in_columns.T > 0)


@functools.cache
def _counted(n: int) -> NDArray[np.float64]:
    """0 to n - 1, one below the other."""
    return np.arange(float(n))[:, None]


def along(
    axes: NDArray[np.float64], origin: NDArray[np.float64], corners: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Corners (3, 8, k) seen from a point: along each of the axes."""
    moved = np.subtract(corners, origin[:, None, None], order="C")
    return np.asarray((axes @ moved.reshape(3, -1)).reshape(moved.shape))


def bounds(
    places: NDArray[np.float64], reach: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where boxes are seen from zero on a plane one meter ahead: least and largest places, (2, k).

    Of a box that reaches behind, the part ahead counts; one that zero is in, or all but in, is
    seen everywhere. The least place of what cannot be seen is above its largest.

    Args:
        places: corners (3, 8, k) to the right, down and ahead.
        reach: how far off the middle the plane is looked at, (2,).
    """
    ahead = places[2]
    flat = places[:2] / np.maximum(ahead, _NEAR)
    low, high = flat.min(axis=1), flat.max(axis=1)
    near = ahead.min(axis=0) < _NEAR
    # Rays may meet what is so close before they are far enough ahead to have a place.
    closest = 1.01 * _NEAR * math.sqrt(1 + float(reach @ reach))
    behind = ahead.max(axis=0) < -closest
    low[:, behind], high[:, behind] = np.inf, -np.inf
    across = (near & ~behind).nonzero()[0]
    if len(across):
        some = places[:, :, across]
        low[:, across], high[:, across] = _part_ahead(some)
        # No box is closer than the one around it along the axes, which tells of most.
        gap = np.maximum(np.maximum(some.min(axis=1), -some.max(axis=1)), 0)
        near_zero = ((gap * gap).sum(axis=0) <= closest * closest).nonzero()[0]
        if len(near_zero):
            close = across[near_zero[_distance(some[:, :, near_zero]) <= closest]]
            low[:, close], high[:, close] = -np.inf, np.inf
    return low, high


def _part_ahead(
    places: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bounds (2, k) of what is further ahead than `_NEAR` of boxes."""
    begin, end = places[:, _EDGES[:, 0]], places[:, _EDGES[:, 1]]
    rise = end[2] - begin[2]
    share = (_NEAR - begin[2]) / np.where(rise == 0, 1, rise)
    cut = (rise != 0) & (share >= 0) & (share <= 1)
    points = np.concatenate([places, begin + share * (end - begin)], axis=1)
    seen = np.concatenate([places[2] >= _NEAR, cut])
    flat = points[:2] / np.maximum(points[2], _NEAR)
    low, high = np.where(seen, flat, np.inf), np.where(seen, flat, -np.inf)
    return np.asarray(low.min(axis=1)), np.asarray(high.max(axis=1))


def _distance(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far boxes with these corners (3, 8, k) are from zero."""
    sides = corners[:, [4, 2, 1]] - corners[:, :1]
    size = np.maximum(np.linalg.norm(sides, axis=0), 1e-12)
    local = np.einsum("isk,ik->sk", sides, corners.mean(axis=1)) / size
    return np.asarray(np.linalg.norm(np.maximum(np.abs(local) - size / 2, 0), axis=0))


class Boxes:
    """The bounding boxes of a model's geoms.

    Args:
        model: the MuJoCo model.

    Attributes:
        bounded: which geoms have bounds; a plane has none, and its box tells nothing.
    """

    def __init__(self, model: Any) -> None:
        import mujoco

        self.bounded = np.asarray(model.geom_type) != mujoco.mjtGeom.mjGEOM_PLANE
        box = np.where(self.bounded[:, None], model.geom_aabb, 0.0)
        center, half = box.T.reshape(2, 3, 1, -1)
        # By coordinate, corner and geom, which NumPy works through fastest.
        self._local = center + _SIGNS.T[:, :, None] * (half + _MARGIN)
        self._poses: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
        self._corners = self._local

    def corners(self, data: Any) -> NDArray[np.float64]:
        """The corners (3, 8, geoms) of all geoms' boxes in the world."""
        places, turns = data.geom_xpos, data.geom_xmat
        known = self._poses
        # Cameras and lamps ask one after the other while nothing moves.
        if known is None or not ((places == known[0]).all() and (turns == known[1]).all()):
            self._poses = places.copy(), turns.copy()
            x, y, z = self._local
            rows = np.ascontiguousarray(turns.T).reshape(3, 3, -1)
            shift = np.ascontiguousarray(places.T)
            self._corners = np.stack(
                [a * x + b * y + c * z + p for (a, b, c), p in zip(rows, shift, strict=True)]
            )
        return self._corners
