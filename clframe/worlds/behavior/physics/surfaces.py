"""Where things can be put: tops, insides and floors as they are now, and free spots on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.behavior.physics.layout import Rectangle
from clframe.worlds.tabletop.assets import Place
from clframe.worlds.tabletop.poses import Matrix, Point
from clframe.worlds.tabletop.simulation import Simulation

_STEP = 0.012
ROOM = 0.022
"""Distance to neighbors that leaves room for a finger."""
_MINIMUM = 0.003
_HIGHEST_PILE = 0.07
_WALL = 0.024
"""Distance to walls, for the same reason."""


@dataclass(frozen=True)
class Surface:
    """A rectangle that things rest on.

    Attributes:
        center: Its middle.
        rotation: Its frame; z is up.
        half: Its half sizes.
        owner: Whose contact it is.
        walled: Whether walls surround it.
        kept: Rectangles on it that stay free, for what opens there.
    """

    center: Point
    rotation: Matrix
    half: tuple[float, float]
    owner: str
    walled: bool = False
    kept: tuple[Rectangle, ...] = ()


def place_now(world: Simulation, name: str, place: Place) -> tuple[Point, Matrix]:
    """Center and rotation of a place of a thing, which may move with a part."""
    body = world.bodies[name]
    if place.part is not None:
        body = world.joints[f"{name}/{place.part}"].body
    rotation = np.array(world.data.xmat[body]).reshape(3, 3)
    return np.asarray(world.data.xpos[body] + rotation @ np.array(place.pos)), rotation


def surface_of(world: Simulation, name: str, inside: bool) -> Surface | None:
    """The surface on or in a thing; None if it has no inside."""
    asset = world.plan.asset(name)
    place = asset.places.get("inside" if inside else "top")
    if place is not None:
        center, rotation = place_now(world, name, place)
        foot = center - rotation @ np.array([0.0, 0.0, place.half[2]])
        return Surface(foot, rotation, place.half[:2], name, walled=inside)
    if inside:
        return None
    _, high = world.bounds(name)
    top = np.array([*world.position(name)[:2], high[2]])
    return Surface(top, np.eye(3), (0.004, 0.004), name)


def spots(
    world: Simulation, surface: Surface, radius: float, ignored: Iterable[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points of a surface for a thing of a radius, and their distance to the nearest neighbor.

    Args:
        world: Where.
        surface: On what.
        radius: Of the circle that the thing needs.
        ignored: Things that are not in the way, such as the one that is to be put.
    """
    wall = 0.5 * _WALL if surface.owner in world.plan.objects else _WALL
    edge = radius + (wall if surface.walled else 0.0)
    reach = [max(0.0, half - edge) for half in surface.half]
    axes = [np.linspace(-r, r, 2 * int(r / _STEP) + 1) for r in reach]
    flat = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    points = surface.center + np.pad(flat, ((0, 0), (0, 1))) @ surface.rotation.T
    clear = np.full(len(points), 1.0)
    level = float(surface.center[2])
    skipped = {surface.owner, *ignored}
    boxes = [rectangle for rectangle in surface.kept]
    for name in (*world.plan.fixtures, *world.plan.objects):
        if name in skipped or not world.plan.asset(name).mass:
            continue
        low, high = world.bounds(name)
        if low[2] < level + 0.06 and high[2] > level + 0.004:
            boxes.append((float(low[0]), float(low[1]), float(high[0]), float(high[1])))
    for x0, y0, x1, y1 in boxes:
        dx = np.maximum(0.0, np.maximum(x0 - points[:, 0], points[:, 0] - x1))
        dy = np.maximum(0.0, np.maximum(y0 - points[:, 1], points[:, 1] - y1))
        clear = np.minimum(clear, np.hypot(dx, dy) - radius)
    return points, clear


def best_spot(
    world: Simulation, surface: Surface, radius: float, ignored: Iterable[str]
) -> Point | None:
    """A spot with room for fingers, packed from a corner; else the freest; None if all is full.

    Within walls there is always one: on top of what lies there already.
    """
    points, clear = spots(world, surface, radius, ignored)
    if clear.max() < _MINIMUM:
        return _pile(world, surface, points, radius, ignored) if surface.walled else None
    roomy = np.flatnonzero(clear >= ROOM)
    if not len(roomy):
        return np.asarray(points[int(np.argmax(clear))])
    corner = surface.center + surface.rotation @ np.array([-surface.half[0], surface.half[1], 0.0])
    # Near the corner, and where several are as near, as free as possible.
    away = np.abs(points[roomy, :2] - corner[:2]).sum(axis=1)
    return np.asarray(points[roomy[int(np.argmin(away - 0.2 * np.minimum(clear[roomy], 0.05)))]])


def _pile(
    world: Simulation,
    surface: Surface,
    points: NDArray[np.float64],
    radius: float,
    ignored: Iterable[str],
) -> Point | None:
    """The lowest spot on what lies within the walls."""
    heights = np.full(len(points), float(surface.center[2]))
    skipped = {surface.owner, *ignored}
    for name in world.plan.objects:
        if name in skipped:
            continue
        low, high = world.bounds(name)
        dx = np.maximum(0.0, np.maximum(low[0] - points[:, 0], points[:, 0] - high[0]))
        dy = np.maximum(0.0, np.maximum(low[1] - points[:, 1], points[:, 1] - high[1]))
        covered = (np.hypot(dx, dy) < radius) & (high[2] > heights)
        heights[covered] = high[2]
    lowest = int(np.argmin(heights))
    if heights[lowest] > surface.center[2] + _HIGHEST_PILE:
        return None
    return np.array([*points[lowest][:2], heights[lowest]])


def random_spot(
    world: Simulation,
    surface: Surface,
    radius: float,
    ignored: Iterable[str],
    rng: np.random.Generator,
    dense: bool,
) -> Point | None:
    """A spot drawn among those with room, or the best one where there is little."""
    points, clear = spots(world, surface, radius, ignored)
    roomy = np.flatnonzero(clear >= ROOM)
    if dense or not len(roomy):
        return best_spot(world, surface, radius, ignored)
    return np.asarray(points[int(rng.choice(roomy))])
