"""Things of the kitchen: bottle, bowl, corkscrew, cup, knife, ladle, pot, chopsticks, spoon."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clframe.worlds.objects.models import meshes
from clframe.worlds.objects.models.meshes import Point2, Point3, Points, Surface
from clframe.worlds.objects.models.parts import Parts


def vessel(outside: Sequence[Point2], wall: float) -> list[Point2]:
    """The profile of a hollow vessel: up the outside, over the rim and down the inside."""
    inside = [(max(r - wall, 0.0), h) for r, h in reversed(outside)]
    floor = outside[0][1] + wall
    inside = [(r, max(h, floor)) for r, h in inside]
    return [(0.0, outside[0][1]), *outside, *inside, (0.0, floor)]


def bottle(p: Parts, i: int) -> None:
    """Water, wine, beer and milk bottles."""
    radius, shoulder, neck, height, mouth, glass, label, cap = (
        (0.033, 0.140, 0.180, 0.215, 0.013, "sky", "white", "blue"),
        (0.038, 0.190, 0.235, 0.310, 0.014, "forest", "cream", "maroon"),
        (0.030, 0.120, 0.165, 0.225, 0.012, "brown", "gold", "silver"),
        (0.045, 0.130, 0.165, 0.190, 0.020, "white", "pink", "red"),
    )[i]
    outline = [
        (0.0, 0.0),
        (radius * 0.9, 0.0),
        (radius, 0.008),
        (radius, shoulder),
        (radius * 0.85, shoulder + 0.35 * (neck - shoulder)),
        (mouth, neck),
        (mouth, height),
        (0.0, height),
    ]
    p.turned(outline, glass)
    low, high = 0.3 * shoulder, 0.8 * shoulder
    p.can((0, 0, low), (0, 0, high), radius * 1.02, label)
    p.can((0, 0, height - 0.014), (0, 0, height + 0.008), mouth * 1.25, cap)
    if i in (0, 3):
        p.can(
            (0, 0, low + 0.3 * (high - low)), (0, 0, low + 0.6 * (high - low)), radius * 1.03, cap
        )


def bowl(p: Parts, i: int) -> None:
    """Bowls from soup plate to deep bowl, with a rim of another color."""
    radius, height, body, rim = (
        (0.075, 0.065, "white", "blue"),
        (0.090, 0.055, "red", "black"),
        (0.065, 0.075, "lime", "white"),
        (0.085, 0.065, "wood", "brown"),
        (0.100, 0.050, "steel", "silver"),
    )[i]
    steps = np.linspace(0, 1, 6)
    foot = 0.45 * radius
    wall = [(foot + (radius - foot) * s**0.55, 0.008 + (height - 0.008) * s) for s in steps]
    p.turned(vessel([(foot, 0.0), *wall], 0.005), body)
    p.ring(radius - 0.002, 0.004, rim, (0, 0, height), n=20)


def cup(p: Parts, i: int) -> None:
    """Mugs and tea cups with a handle; some on a saucer, some with a band."""
    low, high, height, body, trim, kind = (
        (0.040, 0.040, 0.095, "white", "red", "band"),
        (0.038, 0.038, 0.090, "blue", "blue", "plain"),
        (0.026, 0.046, 0.062, "white", "gold", "saucer"),
        (0.034, 0.045, 0.105, "green", "white", "band"),
        (0.042, 0.036, 0.100, "yellow", "yellow", "plain"),
        (0.036, 0.036, 0.120, "steel", "black", "band"),
        (0.028, 0.048, 0.058, "pink", "pink", "saucer"),
        (0.044, 0.044, 0.085, "black", "orange", "band"),
        (0.038, 0.044, 0.090, "brown", "cream", "top"),
    )[i]
    p.place(turn=(0, 0, -16))
    base = 0.006 if kind == "saucer" else 0.0
    p.turned(vessel([(low, base), (high, base + height)], 0.004), body)
    reach = 0.42 * height
    path = meshes.arc(reach * 0.55, -95, 95, 9, squash=1.15)
    p.tube(path, 0.0055, trim, ((low + high) / 2, 0, base + 0.52 * height), (90, 0, 0))

    def at(share: float) -> float:
        """Radius just outside the wall at a share of the height."""
        return low + (high - low) * share + 0.001

    if kind == "band":
        p.turned([(at(0.35), 0.35 * height), (at(0.65), 0.65 * height)], trim)
    elif kind == "top":
        p.turned([(at(0.7), 0.7 * height), (at(1.0), height)], trim)
    elif kind == "saucer":
        plate = [(0.030, 0.0), (0.055, 0.004), (0.070, 0.012)]
        p.turned(vessel(plate, 0.003), trim, sides=22)
    drink = {"saucer": "brown", "top": "brown"}.get(kind)
    if drink:
        p.can((0, 0, base + 0.6 * height), (0, 0, base + 0.75 * height), at(0.72) - 0.006, drink)


def pot(p: Parts, i: int) -> None:
    """A red pot with a lid, a knob and two ears."""
    p.turned([(0, 0), (0.095, 0), (0.105, 0.012), (0.105, 0.120), (0, 0.120)], "red", sides=24)
    p.turned([(0.109, 0.119), (0.109, 0.126), (0.075, 0.145), (0.025, 0.154), (0, 0.155)], "silver")
    p.ring(0.107, 0.004, "dark", (0, 0, 0.120), n=22)
    p.can((0, 0, 0.152), (0, 0, 0.168), 0.008, "black")
    p.egg((0.020, 0.020, 0.010), (0, 0, 0.174), "black")
    for side in (-1, 1):
        ear = meshes.arc(0.034, -90, 90, 9) * [side, 1, 1]
        p.tube(ear, 0.008, "black", (side * 0.103, 0, 0.092))


def knife(p: Parts, i: int) -> None:
    """A cook's knife, lying."""
    p.place(turn=(0, 0, 24))
    blade = [
        (0.0, 0.018),
        (0.0, -0.024),
        (0.09, -0.023),
        (0.14, -0.014),
        (0.185, 0.010),
        (0.19, 0.018),
    ]
    p.cut(blade, 0.002, "silver", (0, 0, 0.008))
    p.box((0.118, 0.026, 0.018), (-0.058, 0.005, 0.009), "black")
    p.can((-0.117, 0.001, 0), (-0.117, 0.001, 0.018), 0.014, "black")
    for x in (-0.02, -0.055, -0.09):
        p.can((x, 0.005, 0.015), (x, 0.005, 0.0195), 0.0045, "silver")


def ladle(p: Parts, i: int) -> None:
    """Soup ladles: the bowl rests on the ground and the handle rises to the right."""
    radius, depth, body, handle, length = (
        (0.042, 0.030, "silver", "steel", 0.22),
        (0.045, 0.034, "black", "red", 0.20),
        (0.038, 0.026, "wood", "wood", 0.24),
        (0.048, 0.030, "steel", "teal", 0.19),
    )[i]
    steps = np.linspace(0.15, 1, 5)
    wall = [(radius * np.sin(np.pi / 2 * s), depth * (1 - np.cos(np.pi / 2 * s))) for s in steps]
    p.turned(vessel([(float(r), float(h)) for r, h in wall], 0.003), body)
    rim: Point3 = (radius - 0.002, 0, depth)
    neck: Point3 = (radius + 0.02, 0, depth + 0.03)
    grip: Point3 = (radius + 0.25 * length, 0, depth + 0.25 * length)
    end: Point3 = (radius + 0.62 * length, 0, depth + 0.72 * length)
    p.rod(rim, neck, 0.0045, body)
    p.rod(neck, grip, 0.005, body)
    p.rod(grip, end, 0.008 if handle != "wood" else 0.007, handle)
    p.ring(0.009, 0.0025, "steel", (end[0] + 0.008, 0, end[2] + 0.008), (90, 0, 0), n=10)


def spoon(p: Parts, i: int) -> None:
    """Table, wooden and plastic tea spoons, lying."""
    half, width, handle, thick, body, grip = (
        (0.030, 0.020, 0.125, 0.0040, "silver", "silver"),
        (0.036, 0.026, 0.165, 0.0060, "wood", "brown"),
        (0.024, 0.017, 0.085, 0.0050, "red", "white"),
    )[i]
    p.place(turn=(0, 0, 30))
    p.mesh(meshes.stretch(_hollow(half, width, 0.011), 9, 9), body)
    path = [(half * 0.85, 0, 0.008), (half * 1.3, 0, 0.014), (half + handle * 0.5, 0, 0.010)]
    p.tube(path, (thick * 0.8, thick * 0.6, thick * 0.8), body)
    end = (half + handle, 0, 0.006)
    p.tube(
        [path[-1], (half + handle * 0.8, 0, 0.007), end], (thick * 0.8, thick, thick * 1.5), grip
    )


def _hollow(half: float, width: float, depth: float) -> Surface:
    """The bowl of a spoon: an ellipse sunk towards its middle."""

    def surface(u: Points, v: Points) -> tuple[Points, Points, Points]:
        a, b = 2 * u - 1, 2 * v - 1
        # The square is drawn onto the disc so that the rim is smooth.
        x, y = a * np.sqrt(1 - b * b / 2), b * np.sqrt(1 - a * a / 2)
        return half * x, width * y * (1 - 0.18 * x), depth * (x * x + y * y)

    return surface


def chopsticks(p: Parts, i: int) -> None:
    """A pair of chopsticks on a rest."""
    length, thick, body, tip = (
        (0.23, 0.0045, "maroon", "gold"),
        (0.21, 0.0050, "tan", "wood"),
        (0.24, 0.0042, "black", "silver"),
    )[i]
    p.place(turn=(0, 0, 28))
    for side in (-1, 1):
        near, far = side * 0.011, side * (0.020 if i == 1 else 0.003)
        start, end = np.array([-length / 2, near, 0.006]), np.array([length / 2, far, 0.012])
        joint = start + 0.3 * (end - start)
        p.tube(np.stack([start, joint]), (thick * 1.25, thick), tip)
        p.tube(np.stack([joint, end]), (thick, thick * 0.55), body)
    p.box((0.016, 0.060, 0.010), (0.35 * length, 0, 0.002), "white" if i != 2 else "red")


def corkscrew(p: Parts, i: int) -> None:
    """A winged corkscrew, standing on its collar with the wings raised."""
    p.turned([(0.020, 0.0), (0.022, 0.012), (0.014, 0.022), (0.013, 0.030), (0.020, 0.0)], "silver")
    for side in (-1, 1):
        p.box((0.005, 0.012, 0.075), (side * 0.013, 0, 0.062), "silver")
        p.can((side * 0.018, -0.007, 0.095), (side * 0.018, 0.007, 0.095), 0.012, "steel")
        p.rod((side * 0.020, 0, 0.095), (side * 0.068, 0, 0.150), 0.0055, "silver")
        p.egg((0.012, 0.006, 0.012), (side * 0.072, 0, 0.155), "silver")
    p.box((0.034, 0.014, 0.022), (0, 0, 0.100), "silver")
    turns = np.linspace(0, 2 * np.pi * 5, 41)
    helix = np.stack(
        [0.006 * np.cos(turns), 0.006 * np.sin(turns), 0.014 + 0.0135 * turns / 6.283], 1
    )
    p.tube(helix, 0.0022, "dark")
    p.can((0, 0, 0.11), (0, 0, 0.165), 0.005, "steel")
    p.ring(0.017, 0.005, "silver", (0, 0, 0.183), (90, 0, 0), n=14)
