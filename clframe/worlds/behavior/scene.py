"""Scenes: rooms in a row, with their floors and furniture in places of their own."""

from __future__ import annotations

from math import ceil, sqrt

import numpy as np

from clframe.worlds.behavior.categories import Can
from clframe.worlds.behavior.household import Area, Household
from clframe.worlds.behavior.state import FIXED, ONTOP, State

_PLOT = 2.5
"""Meters between neighboring pieces of furniture."""


def lay_out(household: Household, state: State, rng: np.random.Generator) -> None:
    """Give every floor an area and every piece of furniture a place, in an order drawn at random.

    Each floor is one area; a room with several (a garden with lawn and driveway) is their union,
    and its furniture stands on the first, vehicles on the driveway. Furniture stands on a grid
    around a free middle row.
    """
    things = household.things
    floors_of: dict[str, list[int]] = {}
    fixtures: dict[int, list[int]] = {}
    for name, room in things.fixed.items():
        slot = household.index[name]
        state.relation[slot] = FIXED
        if household.floor[slot]:
            floors_of.setdefault(room, []).append(slot)
            fixtures[slot] = []
    for name, room in things.fixed.items():
        slot = household.index[name]
        if not household.floor[slot]:
            floors = floors_of[room]
            if household.can[slot] & Can.VEHICLE:
                floors = sorted(floors, key=lambda floor: "driveway" not in household.names[floor])
            fixtures[floors[0]].append(slot)
    left = 0.0
    for room, floors in floors_of.items():
        for floor in floors:
            left = _furnish(household, state, rng, (room, floor, left), fixtures[floor])


def _furnish(
    household: Household,
    state: State,
    rng: np.random.Generator,
    place: tuple[str, int, float],
    furniture: list[int],
) -> float:
    """Lay out one area from its left edge; the result is its right edge."""
    room, floor, left = place
    columns = max(2, ceil(sqrt(len(furniture) + 1)))
    rows = ceil(len(furniture) / columns) + 1
    half = max(columns, rows) * _PLOT / 2
    center = (left + half, half)
    household.areas[floor] = Area(floor, room, center, half)
    state.position[floor] = (*center, 0.0)
    plots = [(column, row) for row in range(rows) for column in range(columns)]
    # The middle row stays free to walk and to put things down.
    plots = [plot for plot in plots if plot[1] != rows // 2][: max(len(furniture), columns)]
    order = rng.permutation(len(plots))
    for slot, plot in zip(furniture, order, strict=False):
        column, row = plots[int(plot)]
        x = left + (column + 0.5) * _PLOT + float(rng.uniform(-0.4, 0.4))
        y = (row + 0.5) * _PLOT + float(rng.uniform(-0.4, 0.4))
        state.position[slot] = (x, y, 0.0)
        state.parent[slot] = floor
        if household.fixed[slot]:
            household.area_of[slot] = floor
        else:
            state.relation[slot] = ONTOP
    return left + 2 * half
