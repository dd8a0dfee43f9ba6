"""Furniture of the scale model, sized by what it has to hold: benches, bins, chests, doors, knobs.

Frames are as in the tabletop's assets: z is up, the front is the -y side, the origin at the foot.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, hypot

from clframe.worlds.behavior.physics.bodies import color_of as _bright
from clframe.worlds.tabletop.assets import Asset, Geom, Joint, Part, Place
from clframe.worlds.tabletop.assets.machines import microwave
from clframe.worlds.tabletop.assets.shapes import Color, walls

_KNOB = Joint("hinge", (0, 0, 1), (0.0, 1.6), 0.5, 0.1, (0.8, 1.2), 0.02, 0.01)
_BROWN = (0.58, 0.42, 0.28)
_LEAST = (0.05, 0.05)
_WALL = 0.006
DEEP = 0.050
"""Height of the walls of bins and drawers."""
_HIGH = 0.115
"""Height of a chest."""
_BENCH = 0.055


def color_of(category: str, light: float) -> Color:
    """The category's color, faded towards that of wood."""
    mixed = zip(_bright(category, light), _BROWN, strict=True)
    red, green, blue = (0.3 * own + 0.7 * wood * light / 0.6 for own, wood in mixed)
    return red, green, blue


@dataclass(frozen=True)
class Load:
    """The radii of things that are to be held, side by side."""

    radii: tuple[float, ...] = ()

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self.radii)

    @property
    def radius(self) -> float:
        """Of the largest."""
        return max(self.radii, default=0.0)

    def half(self, margin: float) -> tuple[float, float]:
        """Half sizes of a rectangle with room for all of them and for the hand's fingers."""
        if not self.radii:
            return _LEAST
        sides = sorted((2 * radius + FINGERS for radius in self.radii), reverse=True)
        found = []
        for columns in range(1, len(sides) + 1):
            width = sum(sides[:columns])
            depth = depth_of(sides, width)
            if depth <= width + 1e-9:  # wider than deep, so that all is seen and reached
                found.append((max(width, 2.2 * depth), width, depth))
        _, width, depth = min(found)
        return width / 2 + margin, depth / 2 + margin


FINGERS = 0.034
"""Room that an object needs next to it."""


def depth_of(sides: list[float], width: float) -> float:
    """How deep squares are in rows of a width, the largest first."""
    depth = filled = 0.0
    for side in sides:
        if filled == 0.0 or filled + side > width + 1e-9:
            depth += side
            filled = 0.0
        filled += side
    return depth


def bench(category: str, load: Load, beside: Load) -> Asset:
    """A table, counter, bed or anything else that things are put on, or next to."""
    side = Load((beside.radius,) * ceil(beside.count / 4)).half(0.0)[0] if beside.count else 0.0
    x, y = (max(side, half) for half in load.half(0.008))
    color, leg = color_of(category, 0.62), color_of(category, 0.4)
    geoms = (
        Geom("box", (x, y, 0.008), (0, 0, _BENCH - 0.008), color, texture="wood"),
        *(
            Geom(
                "box",
                (0.008, 0.008, (_BENCH - 0.016) / 2),
                (sx * (x - 0.01), sy * (y - 0.01), (_BENCH - 0.016) / 2),
                leg,
            )
            for sx in (-1, 1)
            for sy in (-1, 1)
        ),
    )
    top = Place((0, 0, _BENCH), (x, y, 0.0))
    return Asset(geoms, 4.0, 0.0, _BENCH, hypot(x, y), places={"top": top})


def open_bin(category: str, inside: Load, top: Load) -> Asset:
    """A shelf, sink, basket or bucket: filled from above; next to it a top, if one is needed."""
    x, y = inside.half(0.014)
    color = color_of(category, 0.7)
    geoms = [
        Geom("box", (x, y, 0.004), (0, 0, 0.004), color_of(category, 0.5)),
        *walls((x, y), 0.0, DEEP, _WALL, color),
    ]
    places = {"inside": Place((0, 0, 0.058), (x, y, 0.050))}
    radius = hypot(x, y) + _WALL
    if top.count:
        u, v = top.half(0.008)
        at = (x + 2 * _WALL + u, 0.0, DEEP - 0.008)
        geoms.append(Geom("box", (u, v, 0.008), at, color, texture="wood"))
        places["top"] = Place((at[0], 0.0, DEEP), (u, v, 0.0))
        radius = hypot(x + 2 * _WALL + 2 * u, max(y, v))
    return Asset(tuple(geoms), 1.2, 0.0, DEEP, radius, places=places)


def chest(category: str, inside: Load, top: Load) -> Asset:
    """Anything that opens and holds things: one drawer towards the front, and a top."""
    x, y = inside.half(0.014)
    over = top.half(0.008) if top.count else _LEAST
    x = max(x, 0.075, over[0] - 0.02)
    y = max(y, 0.060, over[1] - 0.01)
    t = 0.006
    wide, deep = x + 0.014, y + 0.012  # of the body
    color, front = color_of(category, 0.6), color_of(category, 0.82)
    geoms = (
        *(
            Geom("box", (t, deep, _HIGH / 2), (s * (wide + t), 0, _HIGH / 2), color, texture="wood")
            for s in (-1, 1)
        ),
        Geom("box", (wide, t, _HIGH / 2), (0, deep - t, _HIGH / 2), color, texture="wood"),
        Geom("box", (wide + 2 * t, deep, t), (0, 0, _HIGH), color, texture="wood"),
    )
    travel = 2 * y + 0.030
    joint = Joint(
        "slide", (0, -1, 0), (0.0, travel), travel - 0.026, 0.006, (travel - 0.02, travel - 0.005),
        0.6, 4.0,
    )  # fmt: skip
    drawer = Part(
        "drawer",
        joint,
        (
            Geom("box", (x, y, 0.003), (0, 0, 0.003), front),
            *walls((x, y), 0.003, DEEP, 0.004, front),
            Geom("box", (wide, 0.004, 0.037), (0, -y - 0.010, 0.037), front, texture="wood"),
            Geom("box", (0.010, 0.012, 0.010), (0, -y - 0.026, 0.037), (0.2, 0.15, 0.1), grip=1.5),
        ),
        (0, 0, 0.004),
        0.6,
        (0, -y - 0.032, 0.037),
    )
    places = {
        "inside": Place((0, 0, 0.052), (x, y, 0.046), part="drawer"),
        "top": Place((0, 0, _HIGH + t), (wide + t, deep - 0.004, 0.0)),
    }
    radius = hypot(wide, deep)
    return Asset(geoms, 8.0, 0.0, _HIGH + t, radius, parts=(drawer,), places=places, door="drawer")


def door(category: str) -> Asset:
    """A door or window in its frame: the tabletop's hinged door, in the category's color."""
    made = microwave()
    color = color_of(category, 0.7)
    geoms = tuple(
        Geom(g.kind, g.size, g.pos, color, g.euler, g.solid, g.texture, g.grip)
        for g in made.geoms
        if g.solid
    )
    return Asset(geoms, 6.0, 0.0, made.height, 0.19, parts=made.parts, door="door")


def switch(category: str) -> Asset:
    """A device with a knob on top, which glows while it is on."""
    color, top = color_of(category, 0.6), 0.030
    geoms = (
        Geom("box", (0.06, 0.045, top / 2), (0, 0, top / 2), color),
        Geom("cylinder", (0.012, 0.002), (-0.04, 0, top), (0.25, 0.1, 0.08), solid=False),
    )
    bar = Geom("box", (0.024, 0.007, 0.013), (0, 0, 0.021), (0.85, 0.20, 0.12), grip=1.5)
    plinth = Geom("cylinder", (0.021, 0.004), (0, 0, 0.004), (0.75, 0.75, 0.77))
    knob = Part("knob", _KNOB, (plinth, bar), (0.02, 0.0, top), 0.05, (0, 0, 0.022))
    return Asset(geoms, 4.0, 0.0, top, 0.075, parts=(knob,), device="knob", lamp=1)
