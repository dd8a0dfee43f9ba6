"""The way a robot's camera takes past an object: smooth, at a chosen size in the image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.objects.models import Thing
from clframe.worlds.render import View

OPENINGS = (42.0, 34.0, 27.0, 21.0, 16.0, 12.0)
"""Vertical opening angles in degrees: the color camera of a RealSense D435i, and parts of it."""
NEAREST = 0.35
"""Meters below which the camera does not come, since its depth sensor would see nothing there."""
ANGLES = (-36.0, 2.0, 38.0)
"""Directions, in degrees from the front, about which the three views of a level are."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Path:
    """A camera path, but for the size at which the object is seen.

    All angles are in degrees. The camera goes from `azimuth` - `sweep` / 2 to + `sweep` / 2 and
    from `elevation` - `climb` / 2 to + `climb` / 2; meanwhile the object drifts through the
    image and grows and shrinks a little, as it does for a robot that passes by.
    """

    azimuth: float
    elevation: float
    sweep: float
    climb: float
    drift: float
    wave: float
    phase: float


def choose_path(thing: Thing, view: int, rng: np.random.Generator) -> Path:
    """Draw the path of one of the three views (0 to 2) of an object."""
    elevation = thing.elevation + rng.uniform(-5, 5) + (5.0, 0.0, -4.0)[view]
    return Path(
        azimuth=ANGLES[view] + rng.uniform(-7, 7),
        elevation=float(np.clip(elevation, 12.0, 72.0)),
        sweep=rng.choice([-1.0, 1.0]) * rng.uniform(14, 22),
        climb=rng.uniform(-5, 5),
        drift=rng.uniform(0.5, 1.0),
        wave=rng.uniform(0.02, 0.05),
        phase=rng.uniform(0, 2 * np.pi),
    )


def views(path: Path, thing: Thing, frames: int, share: float) -> list[View]:
    """The camera at each frame of a path.

    Args:
        path: the way it goes.
        thing: what it looks at.
        frames: how many.
        share: length of the longer side of the object's box, as a part of the image's side.
    """
    fovy = _opening(thing)
    result = []
    for t in np.linspace(-0.5, 0.5, frames) if frames > 1 else [0.0]:
        azimuth = np.radians(path.azimuth + path.sweep * t)
        elevation = np.radians(path.elevation + path.climb * t)
        flat = np.cos(elevation)
        # Azimuth 0 is the front of an object: the side towards -y.
        back = np.array([flat * np.sin(azimuth), -flat * np.cos(azimuth), np.sin(elevation)])
        swing = np.sin(2 * np.pi * t + path.phase)
        size = share * (1 + path.wave * swing)
        room = 1 - size - 0.04
        aim = np.array([0.7 * path.drift * t * np.sign(path.sweep), 0.25 * swing]) * max(room, 0.0)
        result.append(_frame_object(thing.points, back, size, 2 * aim, fovy))
    return result


def outline(view: View, points: Floats) -> Floats:
    """The box of points in the image: x0, y0, x1, y1, each from -1 (left, bottom) to 1."""
    local = (points - view.position) @ view.rotation
    half = np.tan(np.radians(view.fovy) / 2)
    flat = local[:, :2] / (-local[:, 2:] * half)
    return np.concatenate([flat.min(axis=0), flat.max(axis=0)])


def _opening(thing: Thing) -> float:
    """The widest opening with which a close-up of the object is taken from far enough.

    It depends on the object alone: a small one is seen through the middle part of the image.
    """
    extent = float(np.linalg.norm(thing.high - thing.low))
    for fovy in OPENINGS:
        if extent / (2 * 0.8 * np.tan(np.radians(fovy) / 2)) >= NEAREST:
            return fovy
    return OPENINGS[-1]


def _frame_object(points: Floats, back: Floats, share: float, aim: Floats, fovy: float) -> View:
    """Stand so far back in a direction that the object fills `share` and is about `aim`."""
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    radius = float(np.linalg.norm(points - middle, axis=1).max())
    half = np.tan(np.radians(fovy) / 2)
    distance = radius / (half * share) + radius
    view = View.look_at(middle + back * distance, middle, fovy)
    for _ in range(5):  # the projection is nearly linear in both: a few steps meet it to 1 %
        x0, y0, x1, y1 = outline(view, points)
        shift = np.array([(x0 + x1) / 2, (y0 + y1) / 2]) - aim
        middle = middle + view.rotation[:, :2] @ shift * (half * distance)
        distance = max(distance * max(x1 - x0, y1 - y0) / (2 * share), 1.2 * radius)
        view = View(middle + back * distance, view.rotation, fovy)
    return view
