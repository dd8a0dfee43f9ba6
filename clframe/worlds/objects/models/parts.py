"""The workbench on which an object is put together from primitives and small meshes.

An object is designed as seen from the front: x to the right, y away from the viewer, z up, in
meters. Nothing here needs MuJoCo; `attach` hands the finished solids to a model specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from clframe.worlds.objects.models import meshes
from clframe.worlds.objects.models.meshes import Mesh, Point2, Point3, Points

Color = tuple[float, float, float]

COLORS: dict[str, Color] = {
    "white": (0.93, 0.93, 0.91),
    "cream": (0.93, 0.87, 0.72),
    "silver": (0.72, 0.74, 0.77),
    "steel": (0.52, 0.55, 0.60),
    "gray": (0.42, 0.42, 0.44),
    "dark": (0.20, 0.21, 0.23),
    "black": (0.07, 0.07, 0.08),
    "red": (0.80, 0.10, 0.10),
    "maroon": (0.45, 0.06, 0.10),
    "orange": (0.95, 0.45, 0.06),
    "gold": (0.83, 0.62, 0.20),
    "yellow": (0.97, 0.83, 0.12),
    "lime": (0.60, 0.82, 0.20),
    "green": (0.10, 0.55, 0.20),
    "forest": (0.06, 0.27, 0.14),
    "teal": (0.05, 0.52, 0.55),
    "cyan": (0.30, 0.78, 0.88),
    "sky": (0.50, 0.72, 0.92),
    "blue": (0.10, 0.28, 0.78),
    "navy": (0.06, 0.10, 0.32),
    "purple": (0.42, 0.16, 0.60),
    "violet": (0.66, 0.50, 0.85),
    "pink": (0.96, 0.55, 0.68),
    "magenta": (0.85, 0.12, 0.50),
    "wood": (0.72, 0.50, 0.28),
    "brown": (0.40, 0.23, 0.11),
    "tan": (0.80, 0.64, 0.43),
    "skin": (0.95, 0.76, 0.62),
    "glass": (0.62, 0.78, 0.82),
}


@dataclass(frozen=True)
class Solid:
    """One geom: its kind, half sizes as MuJoCo takes them, pose, color and perhaps a mesh."""

    kind: str
    size: tuple[float, ...]
    position: Points
    rotation: Points
    color: Color
    mesh: Mesh | None = None

    def surface(self) -> Points:
        """Points that span the solid's outline from any side."""
        if self.mesh is not None:
            local = self.mesh[0]
        elif self.kind == "box":
            local = _CORNERS * self.size
        elif self.kind in ("sphere", "ellipsoid"):
            local = _DIRECTIONS * (self.size if self.kind == "ellipsoid" else self.size[0])
        else:
            radius, half = self.size
            end = (_RING if self.kind == "cylinder" else _DIRECTIONS) * radius
            axis = np.array([0, 0, half])
            local = np.concatenate([end + axis, end - axis])
        return local @ self.rotation.T + self.position


@dataclass
class Parts:
    """Collects the solids of one object; every method adds one, in the color named."""

    solids: list[Solid] = field(default_factory=list)
    elevation: float | None = None  # from how high to look, where its category's would not do
    _frame: tuple[Points, Points] = field(default_factory=lambda: (np.zeros(3), np.eye(3)))

    def place(self, at: Point3 = (0, 0, 0), turn: Point3 = (0, 0, 0)) -> None:
        """Put everything added from now on into this frame (angles in degrees about x, y, z)."""
        self._frame = (np.array(at, dtype=np.float64), rotation(turn))

    def box(self, size: Point3, at: Point3, color: str, turn: Point3 = (0, 0, 0)) -> None:
        """A box of full side lengths about its center."""
        self._add("box", tuple(s / 2 for s in size), at, turn, color)

    def ball(self, radius: float, at: Point3, color: str) -> None:
        """A sphere."""
        self._add("sphere", (radius,), at, (0, 0, 0), color)

    def egg(self, half: Point3, at: Point3, color: str, turn: Point3 = (0, 0, 0)) -> None:
        """An ellipsoid of half axes."""
        self._add("ellipsoid", half, at, turn, color)

    def rod(self, start: Point3, end: Point3, radius: float, color: str) -> None:
        """A bar with round ends between two points."""
        self._between("capsule", start, end, radius, color)

    def can(self, start: Point3, end: Point3, radius: float, color: str) -> None:
        """A cylinder between two points."""
        self._between("cylinder", start, end, radius, color)

    def turned(
        self,
        profile: Sequence[Point2],
        color: str,
        at: Point3 = (0, 0, 0),
        turn: Point3 = (0, 0, 0),
        sides: int = 20,
    ) -> None:
        """A profile of (radius, height) turned about the vertical."""
        self.mesh(meshes.lathe(profile, sides), color, at, turn)

    def cut(
        self,
        outline: Sequence[Point2],
        thickness: float,
        color: str,
        at: Point3 = (0, 0, 0),
        turn: Point3 = (0, 0, 0),
    ) -> None:
        """A plate cut out along an outline."""
        self.mesh(meshes.cut(outline, thickness), color, at, turn)

    def tube(
        self,
        path: Points | Sequence[Point3],
        radius: float | Sequence[float],
        color: str,
        at: Point3 = (0, 0, 0),
        turn: Point3 = (0, 0, 0),
        close: bool = False,
    ) -> None:
        """A round tube along a path."""
        self.mesh(meshes.sweep(np.asarray(path, dtype=float), radius, 7, close), color, at, turn)

    def ring(
        self,
        radius: float,
        thick: float,
        color: str,
        at: Point3 = (0, 0, 0),
        turn: Point3 = (0, 0, 0),
        squash: float = 1.0,
        n: int = 18,
    ) -> None:
        """A closed round ring, lying flat unless turned."""
        path = meshes.arc(radius, 0, 360, n + 1, squash)[:-1]
        self.tube(path, thick, color, at, turn, close=True)

    def mesh(
        self, mesh: Mesh, color: str, at: Point3 = (0, 0, 0), turn: Point3 = (0, 0, 0)
    ) -> None:
        """Any mesh."""
        self._add("mesh", (), at, turn, color, mesh)

    def _between(self, kind: str, start: Point3, end: Point3, radius: float, color: str) -> None:
        a, b = np.array(start, dtype=np.float64), np.array(end, dtype=np.float64)
        axis = b - a
        length = float(np.linalg.norm(axis))
        z = axis / length
        x = np.cross(np.eye(3)[np.argmin(np.abs(z))], z)
        x /= np.linalg.norm(x)
        turned = np.stack([x, np.cross(z, x), z], axis=1)
        self._put(kind, (radius, length / 2), (a + b) / 2, turned, COLORS[color], None)

    def _add(
        self,
        kind: str,
        size: tuple[float, ...],
        at: Point3,
        turn: Point3,
        color: str,
        mesh: Mesh | None = None,
    ) -> None:
        self._put(kind, size, np.array(at, dtype=np.float64), rotation(turn), COLORS[color], mesh)

    def _put(
        self,
        kind: str,
        size: tuple[float, ...],
        at: Points,
        turned: Points,
        color: Color,
        mesh: Mesh | None,
    ) -> None:
        origin, frame = self._frame
        self.solids.append(Solid(kind, size, origin + frame @ at, frame @ turned, color, mesh))


def extreme(points: Points) -> Points:
    """The points that are furthest out in some hundred directions: enough for any outline."""
    return np.asarray(points[np.unique((points @ _AROUND.T).argmax(axis=0))])


def attach(spec: Any, body: Any, solids: Sequence[Solid], prefix: str) -> None:
    """Add the solids to a body of a `mujoco.MjSpec`, as geoms named prefix0, prefix1, ..."""
    import mujoco

    kinds = {
        "box": mujoco.mjtGeom.mjGEOM_BOX,
        "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
        "ellipsoid": mujoco.mjtGeom.mjGEOM_ELLIPSOID,
        "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
        "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
        "mesh": mujoco.mjtGeom.mjGEOM_MESH,
    }
    for k, solid in enumerate(solids):
        name = f"{prefix}{k}"
        settings: dict[str, Any] = {"size": [*solid.size, 0, 0, 0][:3]}
        if solid.mesh is not None:
            mesh = spec.add_mesh(
                name=name,
                uservert=solid.mesh[0].ravel().tolist(),
                userface=solid.mesh[1].ravel().tolist(),
            )
            # Cloth and vessels are open surfaces: they have an area but no volume.
            mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
            settings = {"meshname": name}
        body.add_geom(
            name=name,
            type=kinds[solid.kind],
            pos=solid.position,
            quat=quaternion(solid.rotation),
            rgba=[*solid.color, 1],
            contype=0,
            conaffinity=0,
            mass=1,  # nothing moves by itself, but older versions of MuJoCo refuse bodies without
            **settings,
        )


def rotation(turn: Sequence[float]) -> Points:
    """The matrix that turns about x, then y, then z (fixed axes, degrees)."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(np.radians(turn)), np.sin(np.radians(turn))
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return np.asarray(about_z @ about_y @ about_x)


def quaternion(matrix: Points) -> Points:
    """The unit quaternion (w, x, y, z) of a rotation matrix."""
    import mujoco

    result = np.zeros(4)
    mujoco.mju_mat2Quat(result, np.ascontiguousarray(matrix).ravel())
    return result


def _sphere_points() -> npt.NDArray[np.float64]:
    grid = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 3), axis=-1).reshape(-1, 3)
    grid = grid[np.any(grid != 0, axis=1)]
    return np.asarray(grid / np.linalg.norm(grid, axis=1, keepdims=True))


def _spread(n: int) -> npt.NDArray[np.float64]:
    """Directions spread evenly over the sphere along a spiral."""
    k = np.arange(n) + 0.5
    z, turn = 1 - 2 * k / n, np.pi * (1 + 5**0.5) * k
    flat = np.sqrt(1 - z * z)
    return np.stack([flat * np.cos(turn), flat * np.sin(turn), z], axis=1)


_AROUND = np.concatenate([_spread(120), np.eye(3), -np.eye(3)])
_CORNERS = np.array(
    [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=np.float64
)
_RING = meshes.arc(1.0, 0, 330, 12)
_DIRECTIONS = _sphere_points()
