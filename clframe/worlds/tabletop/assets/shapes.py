"""What a thing is made of: geoms, moving parts, named places and ways to grip it, as plain data.

Lengths are meters, angles radians, masses kilograms. A thing's frame stands upright: z is up, and
the front of a fixture is its -y side, which is how LIBERO's task files turn them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import atan2, cos, pi, sin
from typing import Literal

Vector = tuple[float, float, float]
Color = tuple[float, float, float]
ORIGIN: Vector = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Geom:
    """One primitive.

    Args:
        kind: MuJoCo's name of the shape.
        size: Half sizes as MuJoCo wants them: box (x, y, z), cylinder and capsule (radius, half
            length), sphere (radius,).
        pos: Center in the frame of the part.
        color: Red, green, blue in 0..1.
        euler: Rotation about x, then y, then z, all fixed axes.
        solid: Whether it collides and weighs; the others are for the eye only.
        texture: Name of a procedural texture in place of the plain color.
        grip: Friction of its surface; None takes the default.
    """

    kind: Literal["box", "cylinder", "capsule", "sphere", "ellipsoid"]
    size: tuple[float, ...]
    pos: Vector = ORIGIN
    color: Color = (0.7, 0.7, 0.7)
    euler: Vector = ORIGIN
    solid: bool = True
    texture: str | None = None
    grip: float | None = None


@dataclass(frozen=True)
class Joint:
    """How a part moves: 0 is closed or off, and opening or turning on is the positive direction.

    Args:
        kind: MuJoCo's name.
        axis: In the frame of the part.
        limits: Smallest and largest value.
        on_from: From here up the part counts as open (or the device as on).
        off_to: Below this it counts as closed (or off); between the two it is neither.
        start_on: Range of values at the start where the task says open (or on).
        friction: Dry friction, which holds the part where it was left.
        damping: Viscous friction.
    """

    kind: Literal["slide", "hinge"]
    axis: Vector
    limits: tuple[float, float]
    on_from: float
    off_to: float
    start_on: tuple[float, float]
    friction: float = 0.1
    damping: float = 1.0

    @property
    def shut(self) -> float:
        """A value that counts as closed (or off) with as much room on either side."""
        return (self.limits[0] + self.off_to) / 2


@dataclass(frozen=True)
class Part:
    """A body that moves against the thing's own: a drawer, a door, a knob.

    Args:
        name: Unique within the thing; also its joint's name.
        joint: How it moves.
        geoms: In the part's frame.
        pos: Origin in the thing's frame at joint value 0; a hinge's axis goes through it.
        mass: Of the part.
        handle: Where a gripper takes hold, in the part's frame.
    """

    name: str
    joint: Joint
    geoms: tuple[Geom, ...]
    pos: Vector
    mass: float
    handle: Vector


@dataclass(frozen=True)
class Place:
    """A named place: the region of a task file that has no rectangle.

    Args:
        pos: Center of the box; for a surface, a point on it.
        half: Half sizes of the box; a surface has z = 0.
        part: The part it moves with; None is the thing itself.
        entry: Direction from which it is reached, in the thing's frame: (0, 0, 1) from above,
            (0, -1, 0) from the front.
        spots: Points of the place, in its frame, where things are put one after another.
        lying: Whether bottles are put there on their side.
        along: For things that are longer one way: their long side goes along this axis.
    """

    pos: Vector
    half: Vector
    part: str | None = None
    entry: Vector = (0.0, 0.0, 1.0)
    spots: tuple[tuple[float, float], ...] = ((0.0, 0.0),)
    lying: bool = False
    along: Vector = (1.0, 0.0, 0.0)


@dataclass(frozen=True)
class Grip:
    """How a parallel gripper can take hold of a movable thing.

    Args:
        kind: ``rim`` pinches a wall at some angle around the vertical axis, ``across`` closes on
            both sides of the body, ``handle`` closes on a handle that points along +x.
        width: Distance between the gripped sides (wall thickness for ``rim``).
        height: Of the gripped spot above the thing's origin, from above.
        reach: Distance of the gripped spot from the vertical axis.
        yaws: Directions of closing, in the thing's frame; empty means any.
        side: Height of the gripped spot for a grip from the side; None if it cannot be taken so.
        lean: For ``rim``: angle of the wall from the vertical, outwards.
    """

    kind: Literal["rim", "across", "handle"]
    width: float
    height: float
    reach: float = 0.0
    yaws: tuple[float, ...] = ()
    side: float | None = None
    lean: float = 0.0


@dataclass(frozen=True)
class Asset:
    """A category of things.

    Args:
        geoms: In the thing's frame.
        mass: Without its parts.
        bottom: Distance from the lowest point to the origin when upright.
        height: When upright.
        radius: Of the circle it needs on a table.
        grip: For movable things: how to take hold; None if it is not meant to be carried.
        parts: What moves.
        places: Named places, by the name that task files use.
        door: The part whose state ``open`` and ``close`` ask for when given the thing itself.
        device: The part whose state ``turnon`` and ``turnoff`` ask for.
        lamp: Number of the geom that glows while the device is on.
        yaw: Rotation about z at the start where the task says nothing.
        long: Whether it has a long axis (its own z) and can be laid down.
    """

    geoms: tuple[Geom, ...]
    mass: float
    bottom: float
    height: float
    radius: float
    grip: Grip | None = None
    parts: tuple[Part, ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    door: str | None = None
    device: str | None = None
    lamp: int | None = None
    yaw: tuple[float, float] = (0.0, 0.0)
    long: bool = False


def ring(
    sides: int,
    low: tuple[float, float],
    high: tuple[float, float],
    thickness: float,
    color: Color,
    *,
    texture: str | None = None,
) -> Iterator[Geom]:
    """The wall of a vessel: flat boxes around the z axis.

    Args:
        sides: How many boxes.
        low: Radius and height of the inner side's lower edge.
        high: Radius and height of its upper edge.
        thickness: Of the wall.
        color: Of the wall.
        texture: Of the wall.
    """
    (r0, z0), (r1, z1) = low, high
    length = ((r1 - r0) ** 2 + (z1 - z0) ** 2) ** 0.5
    lean = atan2(r1 - r0, z1 - z0)
    middle = (r0 + r1) / 2 + thickness / 2
    # Wide enough that neighbors meet at the outer upper edge.
    half = (max(r0, r1) + thickness) * sin(pi / sides) / cos(pi / sides)
    for number in range(sides):
        turn = 2 * pi * number / sides
        yield Geom(
            "box",
            (thickness / 2, half, length / 2),
            (middle * cos(turn), middle * sin(turn), (z0 + z1) / 2),
            color,
            (0.0, lean, turn),
            texture=texture,
        )


def walls(
    half: tuple[float, float],
    bottom: float,
    top: float,
    thickness: float,
    color: Color,
    *,
    texture: str | None = None,
) -> Iterator[Geom]:
    """Four upright walls around a rectangle whose inner half sizes are given."""
    x, y = half
    t, z, h = thickness / 2, (bottom + top) / 2, (top - bottom) / 2
    for sign in (-1, 1):
        yield Geom("box", (t, y + thickness, h), (sign * (x + t), 0.0, z), color, texture=texture)
        yield Geom("box", (x, t, h), (0.0, sign * (y + t), z), color, texture=texture)
