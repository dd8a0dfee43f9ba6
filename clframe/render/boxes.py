"""Where bounding boxes of geoms are seen from a point: which rays may meet which geoms at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NEAR = 1e-3
"""Meters ahead from which a corner of a box has a place in the picture."""
_MARGIN = 1e-6
"""Meters that are added to boxes, for rounding."""
_SIGNS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)


@dataclass(frozen=True, eq=False)
class Grid:
    """A picture plane one meter ahead of a point, cut into cells.

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

    def cover(self, corners: NDArray[np.float64]) -> NDArray[np.int32]:
        """How many of the boxes with these corners (k, 8, 3) may be seen in each cell.

        A box that reaches behind the point is counted in all cells.
        """
        rows, columns = self.shape
        places = (corners - self.origin) @ self.axes.T
        ahead = places[:, :, 2:]
        behind = ahead.min(axis=1) < _NEAR
        places = (places[:, :, :2] / np.maximum(ahead, _NEAR) - self.low) * self.scale
        # A cell more on each side: rounding must not lose a ray.
        most = (columns, rows)
        first = np.minimum(np.maximum(np.floor(places.min(axis=1)) - 1, 0), most)
        last = np.minimum(np.maximum(np.floor(places.max(axis=1)) + 2, 0), most)
        left, top = np.where(behind, 0, first).astype(np.intp).T
        end, bottom = np.where(behind, most, last).astype(np.intp).T
        edges = np.zeros((rows + 1, columns + 1), np.int32)
        # Sums of these over rows and columns are 1 inside each rectangle.
        np.add.at(edges, (top, left), 1)
        np.add.at(edges, (bottom, end), 1)
        np.add.at(edges, (top, end), -1)
        np.add.at(edges, (bottom, left), -1)
        np.cumsum(edges, axis=0, out=edges)
        np.cumsum(edges, axis=1, out=edges)
        return edges[:rows, :columns]


class Boxes:
    """The bounding boxes of the geoms that can be seen.

    Args:
        model: the MuJoCo model.
        groups: geom groups that are seen.
    """

    def __init__(self, model: Any, groups: Sequence[int]) -> None:
        import mujoco

        visible = np.isin(model.geom_group, list(groups))
        # A plane has no bounds.
        self.solid = visible & (np.asarray(model.geom_type) != mujoco.mjtGeom.mjGEOM_PLANE)
        self._center = np.array(model.geom_aabb[:, :3])
        self._half = np.array(model.geom_aabb[:, 3:]) + _MARGIN

    def corners(self, data: Any, geoms: NDArray[np.intp]) -> NDArray[np.float64]:
        """The corners (k, 8, 3) of these geoms' boxes in the world."""
        local = self._center[geoms, None] + _SIGNS * self._half[geoms, None]
        turned = local @ data.geom_xmat[geoms].reshape(-1, 3, 3).transpose(0, 2, 1)
        return np.asarray(turned + data.geom_xpos[geoms, None])
