"""Which points a light reaches, and where they are as seen from it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.render.boxes import Grid
from clframe.worlds.render.patches import length
from clframe.worlds.render.rays import Caster

CLEARANCE = 1e-4
"""Meters by which something must be before a point to shade it, so that nothing shades itself."""
_CELLS = 64
"""Cells along a side of the grid on which bounding boxes are seen from a light."""


def reached(
    caster: Caster, data: Any, origin: NDArray[np.float64], ways: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Which points at the ends of `ways` (3, n) the light at `origin` reaches."""
    hits = caster.cast(data, origin, ways.T)
    # In lengths of the ray: 1 is the point itself.
    limit = 1 - CLEARANCE / length(ways)
    return np.asarray((hits.geom < 0) | (hits.distance >= limit))


def seen_from(
    origin: NDArray[np.float64], ways: NDArray[np.float64]
) -> tuple[Grid, NDArray[np.intp]] | None:
    """A grid that all ways from a point are on and the number of the cell that each is in.

    None if they do not all lead one way.
    """
    if not ways.shape[1]:
        return None
    axes = _axes(ways.mean(axis=1))
    places = axes @ ways
    depth = places[2]
    if depth.min() < 0.1 * float(depth.max()):
        return None
    places = places[:2] / depth
    low, high = places.min(axis=1), places.max(axis=1)
    scale = _CELLS / np.maximum((high - low) * (1 + 1e-9), 1e-9)
    places -= low[:, None]
    places *= scale[:, None]
    column, row = places.astype(np.intp)
    return Grid(origin, axes, low, scale, (_CELLS, _CELLS)), row * _CELLS + column


def _axes(towards: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows right, down and ahead of a view in a direction."""
    x, y, z = towards.tolist()
    # The coordinate axis that is least along the way is never parallel to it.
    if abs(x) <= abs(y) and abs(x) <= abs(z):
        right = (0.0, -z, y)
    elif abs(y) <= abs(z):
        right = (z, 0.0, -x)
    else:
        right = (-y, x, 0.0)
    a, b, c = right
    axes = np.array([right, (y * c - z * b, z * a - x * c, x * b - y * a), (x, y, z)])
    axes /= np.maximum(np.sqrt((axes * axes).sum(axis=1, keepdims=True)), 1e-12)
    return axes
