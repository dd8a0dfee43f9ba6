"""Where on the table everything stands: a piece of it for each floor, furniture in rows behind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from clframe.worlds.behavior.faults import at_object
from clframe.worlds.behavior.physics.fitting import Cast
from clframe.worlds.behavior.physics.furniture import depth_of
from clframe.worlds.tabletop.assets import Asset, Geom
from clframe.worlds.tabletop.assets.shapes import Vector

Rectangle = tuple[float, float, float, float]
"""x0, y0, x1, y1."""
DEPTH = 1.30
"""Of the table, from back to front, as far as a hand reaches."""
WIDTH = 1.80
_LEAST = 0.40
_GAP = 0.05
_SPACE = 0.05
"""Room that an object on a floor needs next to it."""
_KNOB = 0.05
"""Room for the hand in front of an open drawer."""


@dataclass(frozen=True)
class Zone:
    """The part of the table that stands for a floor.

    Attributes:
        name: The floor.
        bounds: Its rectangle.
        rows: Names of the furniture in each row, from the back; the front line of each row.
    """

    name: str
    bounds: Rectangle
    rows: tuple[tuple[tuple[str, ...], float], ...]


def extent(asset: Asset) -> Rectangle:
    """What a standing thing covers in its own frame, its parts opened."""
    boxes = [_spread(geom, (0.0, 0.0, 0.0), (0.0, 0.0)) for geom in asset.geoms]
    for part in asset.parts:
        if part.joint.kind == "slide":
            way = part.joint.limits[1] + _KNOB
            move = (part.joint.axis[0] * way, part.joint.axis[1] * way)
            boxes += [_spread(geom, part.pos, move) for geom in part.geoms]
        elif abs(part.handle[0]) > 0.03:  # a door swings out to the front
            reach = part.handle[0] + 0.03
            x, y, _ = part.pos
            boxes.append((x - 0.06, y - reach - _KNOB, x + reach, y))
    low, high = np.min(boxes, axis=0), np.max(boxes, axis=0)
    return float(low[0]), float(low[1]), float(high[2]), float(high[3])


def _spread(geom: Geom, at: Vector, move: tuple[float, float]) -> Rectangle:
    half = geom.size[:2] if geom.kind == "box" else (geom.size[0], geom.size[0])
    x, y = geom.pos[0] + at[0], geom.pos[1] + at[1]
    return (
        x - half[0] + min(0.0, move[0]),
        y - half[1] + min(0.0, move[1]),
        x + half[0] + max(0.0, move[0]),
        y + half[1] + max(0.0, move[1]),
    )


Rows = tuple[tuple[tuple[str, ...], float], ...]


def lay_out(cast: Cast) -> tuple[Zone, ...]:
    """Divide the table among the floors, and make it no larger than that needs.

    Raises:
        ActivityError: If there is no room.
    """
    plans = {}
    for name in cast.floors:
        furniture = [other for other in cast.standing if cast.holder[other] == name]
        plans[name] = _plans(cast, name, furniture)
    # As square as can be; where that is too wide, as narrow as can be.
    chosen = {name: min(found, key=lambda plan: plan[0] + plan[1]) for name, found in plans.items()}
    if sum(width for width, *_ in chosen.values()) > WIDTH:
        chosen = {name: found[0] for name, found in plans.items()}
    total = sum(width for width, *_ in chosen.values())
    if total > WIDTH:
        name = max(chosen, key=lambda floor: chosen[floor][0])
        sentence = (
            f"There is no room for all on a table: what is on {name} alone takes "
            f"{chosen[name][0]:.2f} m of {WIDTH} m."
        )
        raise at_object(cast.household.problem, name, sentence)
    depth = max(_LEAST, *(needed for _, needed, _ in chosen.values()))
    zones, left = [], -total / 2
    for name, (width, _, rows) in chosen.items():
        bounds = (-depth / 2, left, depth / 2, left + width)
        lines = tuple((row, front - depth / 2) for row, front in rows)
        zones.append(Zone(name, bounds, lines))
        left += width
    return tuple(zones)


def _plans(cast: Cast, name: str, furniture: list[str]) -> list[tuple[float, float, Rows]]:
    """Width, depth and rows of furniture that a floor can do with, the narrowest first."""
    sizes = {other: _footprint(cast, other) for other in furniture}
    order = sorted(furniture, key=lambda other: -sizes[other][1])
    sides = sorted((2 * radius + _SPACE for radius in cast.loads[name].radii), reverse=True)
    found: list[tuple[float, float, Rows]] = []
    for width in np.arange(0.22, WIDTH + 0.01, 0.04):
        rows = _rows(order, sizes, float(width))
        if rows is None:
            continue
        depths = [max(sizes[other][1] for other in row) + _GAP for row in rows]
        if sides[0] + 0.02 > width:
            continue
        depth = sum(depths) + depth_of(sides, float(width) - 0.02) + 0.02
        if depth <= DEPTH:
            fronts = np.cumsum(depths)
            lines = tuple((tuple(row), float(line)) for row, line in zip(rows, fronts, strict=True))
            found.append((float(width), depth, lines))
    if not found:
        thing = order[0] if order else name
        sentence = f"There is no room for {thing} on a table with all else that is on {name}."
        raise at_object(cast.household.problem, thing, sentence)
    return found


def _rows(
    order: list[str], sizes: dict[str, tuple[float, float]], width: float
) -> list[list[str]] | None:
    """Furniture in rows of a width, or None if a piece is wider."""
    rows: list[list[str]] = []
    filled = 0.0
    for other in order:
        wide = sizes[other][0] + _GAP
        if wide + _GAP > width:
            return None
        if not rows or filled + wide + _GAP > width:
            rows.append([])
            filled = 0.0
        rows[-1].append(other)
        filled += wide
    return rows


def ground(cast: Cast, name: str) -> Rectangle:
    """Return the ground that a standing object needs in its own frame, with room next to it."""
    margin = cast.margins[name]
    x0, y0, x1, y1 = extent(cast.assets[name])
    return x0 - margin, y0 - margin, x1 + margin, y1 + margin


def _footprint(cast: Cast, name: str) -> tuple[float, float]:
    """Along the table and across it, seen from the camera: its front shows there."""
    x0, y0, x1, y1 = ground(cast, name)
    return x1 - x0, y1 - y0


def stand(
    cast: Cast, zones: Iterable[Zone], rng: np.random.Generator
) -> dict[str, tuple[float, float]]:
    """Where furniture stands: rows are kept, the order within them is drawn."""
    found: dict[str, tuple[float, float]] = {}
    for zone in zones:
        _, y0, _, y1 = zone.bounds
        back = zone.bounds[0]
        for row, front in zone.rows:
            names = [row[k] for k in rng.permutation(len(row))]
            widths = [_footprint(cast, name)[0] for name in names]
            spare = y1 - y0 - sum(widths)
            shares = (
                rng.dirichlet(np.full(len(names) + 1, 4.0)) * (spare - _GAP * (len(names) + 1))
                + _GAP
            )
            at = y0
            for name, width, space in zip(names, widths, shares, strict=False):
                x_low, _, _, y_high = ground(cast, name)
                at += float(space)
                # Its front (-y) faces the camera (+x): its own x runs along the table.
                along = at - x_low
                across = back + _GAP / 2 + y_high
                found[name] = (across, along)
                at += width
            back = front
    return found
