"""Fixtures with moving parts: cabinets with drawers, the microwave with its door, the stove."""

from __future__ import annotations

from clframe.worlds.tabletop.assets.shapes import Asset, Color, Geom, Joint, Part, Place, walls

# LIBERO counts a drawer as open from 14 cm, lets it start anywhere above that, and counts it as
# closed only beyond where it starts, pressed home; the door of the microwave as open from 1.3 rad
# and closed within 0.005; the stove as on from 0.5 rad and off below 0 (facts of its code).
_DRAWER = Joint("slide", (0, -1, 0), (-0.010, 0.165), 0.14, 0.0, (0.15, 0.16), 0.6, 4.0)
_DOOR = Joint("hinge", (0, 0, -1), (0.0, 1.9), 1.3, 0.005, (1.45, 1.6), 0.02, 0.05)
_KNOB = Joint("hinge", (0, 0, 1), (-0.05, 1.6), 0.5, 0.0, (0.8, 1.2), 0.02, 0.01)


_BACK = 0.05
"""How far a cabinet stands behind its origin, so that an open drawer does not cover what LIBERO's
tasks put in front of it."""


def cabinet(body: Color, front: Color, knob: Color) -> Asset:
    """Three drawers that open towards -y, and a top to put things on."""
    x, y, layer, t = 0.106, 0.085, 0.080, 0.006
    top = 3 * layer + t
    geoms = (
        *(
            Geom("box", (t, y, top / 2), (s * (x + t), _BACK, top / 2), body, texture="wood")
            for s in (-1, 1)
        ),
        Geom("box", (x, t, top / 2), (0, _BACK + y - t, top / 2), body, texture="wood"),
        Geom("box", (x + 2 * t, y, t), (0, _BACK, top), body, texture="wood"),
    )
    parts, places = [], {}
    for number, name in enumerate(("bottom", "middle", "top")):
        base = number * layer + 0.004
        parts.append(_drawer(f"{name}_drawer", base, front, knob))
        # Deep enough for what is at the bottom; the drawer above bounds it.
        places[f"{name}_region"] = Place(
            (0, 0, 0.038),
            (0.098, 0.075, 0.032),
            part=f"{name}_drawer",
            spots=((0.0, -0.018), (0.045, -0.018), (-0.045, -0.018)),
            lying=True,
        )
    places["top_side"] = Place((0, _BACK, top + t), (x, y, 0.0))
    return Asset(geoms, 8.0, 0.0, top + t, 0.145, parts=tuple(parts), places=places)


def _drawer(name: str, base: float, front: Color, knob: Color) -> Part:
    """A tray with a high front and a knob, in the cabinet's frame at the tray's foot."""
    x, y = 0.098, 0.075
    geoms = (
        Geom("box", (x, y, 0.003), (0, 0, 0.003), front),
        *walls((x, y), 0.003, 0.050, 0.004, front),
        Geom("box", (0.105, 0.004, 0.037), (0, -0.085, 0.037), front, texture="wood"),
        Geom("box", (0.010, 0.012, 0.010), (0, -0.101, 0.037), knob, grip=1.5),
    )
    return Part(name, _DRAWER, geoms, (0, _BACK, base), 0.6, (0, -0.107, 0.037))


def microwave() -> Asset:
    """A cavity behind a door that is hinged at its -x side; a panel at the +x side."""
    shell, dark = (0.82, 0.82, 0.84), (0.12, 0.13, 0.15)
    y, top, base = 0.110, 0.200, 0.036
    left, right = -0.160, 0.110  # of the cavity; the panel continues to 0.16
    t = 0.006
    mid, half = (left + right) / 2, (right - left) / 2
    geoms = (
        Geom("box", (0.16, y, 0.006), (0, 0, base - 0.006), shell),
        Geom("box", (0.16, y, t), (0, 0, top - t), shell),
        Geom("box", (t, y, (top - base) / 2), (left + t, 0, (top + base) / 2), shell),
        Geom("box", (0.025, y, (top - base) / 2), (0.135, 0, (top + base) / 2), shell),
        Geom("box", (half, t, (top - base) / 2), (mid, y - t, (top + base) / 2), dark),
        Geom("box", (0.020, 0.001, 0.012), (0.135, -y, top - 0.035), (0.1, 0.5, 0.3), solid=False),
        Geom("box", (0.016, 0.001, 0.030), (0.135, -y, 0.095), dark, solid=False),
        *(
            Geom("box", (0.015, 0.015, 0.012), (sx * 0.13, sy * 0.08, 0.012), dark, solid=False)
            for sx in (-1, 1)
            for sy in (-1, 1)
        ),
    )
    height = (top - base) / 2
    door = (
        Geom("box", (half, 0.008, height), (half, -0.008, 0), shell),
        Geom(
            "box",
            (half - 0.035, 0.001, height - 0.03),
            (half - 0.01, -0.0165, 0),
            dark,
            solid=False,
        ),
        Geom("box", (0.007, 0.018, 0.040), (2 * half - 0.022, -0.034, 0), dark, grip=1.5),
    )
    hinge = Part(
        "door", _DOOR, door, (left, -y, (top + base) / 2), 0.5, (2 * half - 0.022, -0.040, 0)
    )
    inside = (top - 2 * t - base) / 2
    places = {
        "heating_region": Place(
            (mid, -0.005, base + inside), (half - t, y - 0.005, inside), entry=(0, -1, 0)
        ),
        "top_side": Place((0, 0, top), (0.16, y, 0.0)),
    }
    return Asset(geoms, 6.0, 0.0, top, 0.19, parts=(hinge,), places=places, door="door")


def flat_stove() -> Asset:
    """A hot plate towards -x of its knob; the burner glows while it is on."""
    shell, plate = (0.30, 0.31, 0.34), (0.14, 0.14, 0.15)
    top = 0.030
    geoms = (
        Geom("box", (0.135, 0.100, top / 2), (0.060, 0, top / 2), shell),
        Geom("cylinder", (0.082, 0.0010), (0.030, 0, top), plate, solid=False),
        Geom("cylinder", (0.058, 0.0016), (0.030, 0, top), (0.24, 0.22, 0.22), solid=False),
        Geom("cylinder", (0.020, 0.0022), (0.030, 0, top), plate, solid=False),
        Geom("box", (0.020, 0.004, 0.0010), (0.165, 0.040, top), (0.9, 0.9, 0.9), solid=False),
    )
    knob = Part(
        "knob",
        _KNOB,
        (
            Geom("cylinder", (0.021, 0.004), (0, 0, 0.004), (0.75, 0.75, 0.77)),
            Geom("box", (0.024, 0.007, 0.013), (0, 0, 0.021), (0.85, 0.20, 0.12), grip=1.5),
        ),
        (0.158, 0.0, top),
        0.05,
        (0, 0, 0.022),
    )
    cook = Place(
        (0.030, 0, top), (0.090, 0.095, 0.0), spots=((0.0, 0.0), (0.0, 0.046), (0.0, -0.046))
    )
    return Asset(
        geoms,
        5.0,
        0.0,
        top,
        0.15,
        parts=(knob,),
        places={"cook_region": cook},
        device="knob",
        lamp=2,
    )


MACHINES: dict[str, Asset] = {
    "wooden_cabinet": cabinet((0.50, 0.33, 0.19), (0.66, 0.47, 0.29), (0.20, 0.14, 0.10)),
    "white_cabinet": cabinet((0.88, 0.88, 0.86), (0.95, 0.95, 0.93), (0.45, 0.45, 0.48)),
    "microwave": microwave(),
    "flat_stove": flat_stove(),
}
