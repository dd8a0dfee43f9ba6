"""Small triangle meshes made in code: turned, swept, cut out and stretched surfaces.

Each function returns vertices in meters and triangles wound so that normals point outwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]
Triangles = npt.NDArray[np.int32]
Mesh = tuple[Points, Triangles]
Point2 = tuple[float, float]
Point3 = tuple[float, float, float]
Surface = Callable[[Points, Points], Sequence[Points]]
"""x, y and z as functions of u and v."""


def lathe(profile: Sequence[Point2], sides: int = 20) -> Mesh:
    """Turn a profile of (radius, height) about the z axis; going up makes an outer wall."""
    angles = np.linspace(0, 2 * np.pi, sides, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    vertices: list[Points] = []
    rings: list[npt.NDArray[np.int32]] = []
    count = 0
    for radius, height in profile:
        size = 1 if radius == 0 else sides  # the axis is one point, not a ring of equal points
        ring = np.zeros((size, 3))
        ring[:, 2] = height
        if radius:
            ring[:, :2] = radius * circle
        vertices.append(ring)
        rings.append(np.resize(np.arange(count, count + size, dtype=np.int32), sides))
        count += size
    faces: list[Triangles] = []
    for low, high in pairwise(rings):
        faces.append(_strip(low, high, closed=True))
    return np.concatenate(vertices), _proper(np.concatenate(faces))


def sweep(
    path: Points, radius: float | Sequence[float], sides: int = 7, close: bool = False
) -> Mesh:
    """A round tube along a path, with a ring of given radius at each point."""
    path = np.asarray(path, dtype=np.float64)
    n = len(path)
    radii = np.broadcast_to(np.asarray(radius, dtype=np.float64), (n,))
    if close:
        tangents = np.roll(path, -1, axis=0) - np.roll(path, 1, axis=0)
    else:
        tangents = np.gradient(path, axis=0)
    tangents /= np.linalg.norm(tangents, axis=1, keepdims=True)
    # The frame is carried along so that the tube does not twist.
    side = np.cross(tangents[0], np.eye(3)[np.argmin(np.abs(tangents[0]))])
    angles = np.linspace(0, 2 * np.pi, sides, endpoint=False)
    rings = []
    for point, tangent, r in zip(path, tangents, radii, strict=True):
        side = side - tangent * (side @ tangent)
        side /= np.linalg.norm(side)
        other = np.cross(tangent, side)
        rings.append(point + r * (np.outer(np.cos(angles), side) + np.outer(np.sin(angles), other)))
    vertices = np.concatenate(rings)
    index = np.arange(n * sides, dtype=np.int32).reshape(n, sides)
    pairs = list(pairwise(index))
    if close:
        pairs.append((index[-1], index[0]))
    faces = [_strip(low, high, closed=True) for low, high in pairs]
    if not close:
        faces.append(
            np.array([(index[0, 0], index[0, k + 1], index[0, k]) for k in range(1, sides - 1)])
        )
        last = index[-1]
        faces.append(np.array([(last[0], last[k], last[k + 1]) for k in range(1, sides - 1)]))
    return vertices, np.concatenate(faces).astype(np.int32)


def cut(outline: Sequence[Point2], thickness: float) -> Mesh:
    """A plate of the given outline (a simple polygon), lying from z = 0 to z = thickness."""
    flat = np.asarray(outline, dtype=np.float64)
    if _area(flat) < 0:
        flat = flat[::-1]
    n = len(flat)
    vertices = np.zeros((2 * n, 3))
    vertices[:n, :2] = flat
    vertices[n:, :2] = flat
    vertices[n:, 2] = thickness
    top = np.asarray(_ears(flat), dtype=np.int32)
    low = np.arange(n, dtype=np.int32)
    wall = _strip(low, low + n, closed=True)
    return vertices, np.concatenate([top[:, ::-1], top + n, wall])


def stretch(surface: Surface, nu: int, nv: int, around: bool = False) -> Mesh:
    """A parametric surface (x, y, z) of u, v in 0..1; `around` joins u = 1 to u = 0."""
    u = np.linspace(0, 1, nu, endpoint=not around)
    v = np.linspace(0, 1, nv)
    uu, vv = np.meshgrid(u, v, indexing="ij")
    x, y, z = surface(uu, vv)
    vertices = np.stack([x.ravel(), y.ravel(), z.ravel()], axis=1)
    index = np.arange(nu * nv, dtype=np.int32).reshape(nu, nv)
    rows = list(pairwise(index))
    if around:
        rows.append((index[-1], index[0]))
    return vertices, np.concatenate([_strip(high, low, closed=False) for low, high in rows])


def loft(sections: Sequence[Points]) -> Mesh:
    """Join closed outlines of equally many points, and close both ends with a fan."""
    n = len(sections[0])
    vertices = np.concatenate([*sections, [sections[0].mean(axis=0), sections[-1].mean(axis=0)]])
    index = np.arange(n * len(sections), dtype=np.int32).reshape(len(sections), n)
    faces = [_strip(a, b, closed=True) for a, b in pairwise(index)]
    first, last = len(vertices) - 2, len(vertices) - 1
    around = [(k, (k + 1) % n) for k in range(n)]
    faces.append(np.array([(first, index[0, b], index[0, a]) for a, b in around]))
    faces.append(np.array([(last, index[-1, a], index[-1, b]) for a, b in around]))
    return vertices, np.concatenate(faces).astype(np.int32)


def moved(mesh: Mesh, by: Point3) -> Mesh:
    """The same mesh somewhere else."""
    return mesh[0] + np.asarray(by), mesh[1]


def joined(parts: Sequence[Mesh]) -> Mesh:
    """Several meshes as one."""
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in parts[:-1])])
    faces = [triangles + int(start) for (_, triangles), start in zip(parts, starts, strict=True)]
    return np.concatenate([vertices for vertices, _ in parts]), np.concatenate(faces).astype(
        np.int32
    )


def arc(radius: float, start: float, stop: float, n: int, squash: float = 1.0) -> Points:
    """Points of a circle (squashed: an ellipse) in the x-y plane between two angles in degrees."""
    angles = np.radians(np.linspace(start, stop, n))
    return np.stack([radius * np.cos(angles), squash * radius * np.sin(angles), 0 * angles], axis=1)


def _strip(low: Triangles, high: Triangles, closed: bool) -> Triangles:
    """Triangles between two rows of equally many vertices."""
    if closed:
        low, high = np.append(low, low[0]), np.append(high, high[0])
    a, b, c, d = low[:-1], low[1:], high[1:], high[:-1]
    return np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])


def _proper(faces: Triangles) -> Triangles:
    """Drop triangles that have shrunk to a line, as they do where a profile meets the axis."""
    a, b, c = faces.T
    return np.asarray(faces[(a != b) & (b != c) & (a != c)])


def _area(flat: Points) -> float:
    x, y = flat.T
    return float(0.5 * np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))


def _cross(a: Points, b: Points, c: Points) -> float:
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def _ears(flat: Points) -> list[tuple[int, int, int]]:
    """Triangulate a counter-clockwise simple polygon by cutting off ears."""
    rest = list(range(len(flat)))
    triangles = []
    while len(rest) > 3:
        for k in range(len(rest)):
            i, j, m = rest[k - 1], rest[k], rest[(k + 1) % len(rest)]
            a, b, c = flat[i], flat[j], flat[m]
            if _cross(a, b, c) <= 0:
                continue
            inside = any(
                _cross(a, b, p) >= 0 and _cross(b, c, p) >= 0 and _cross(c, a, p) >= 0
                for p in (flat[q] for q in rest if q not in (i, j, m))
            )
            if not inside:
                triangles.append((i, j, m))
                rest.pop(k)
                break
        else:  # collinear points only are left
            rest.pop(0)
    triangles.append((rest[0], rest[1], rest[2]))
    return triangles
