"""The state of the world without physics, as physics has it."""

from __future__ import annotations

from clframe.worlds.behavior.household import Area, Household
from clframe.worlds.behavior.physics.relations import Relations
from clframe.worlds.behavior.physics.table import Table
from clframe.worlds.behavior.state import ABSENT, HELD, INSIDE, ONTOP, State
from clframe.worlds.tabletop.gripper import HAND

_RIGHT = 1
"""The hand of the household that is the table's one hand."""
_LOST = -0.05
"""What is lower has fallen off the table."""


def scale(household: Household, table: Table) -> None:
    """Give a household the sizes and areas of its model on the table."""
    for name in table.cast.assets:
        low, high = table.bounds(name)
        x, y, z = (high - low) / 2
        # Half the extent on the ground, and the full height.
        household.half[household.index[name]] = (float(x), float(y), float(2 * z))
    for name, zone in table.zones.items():
        slot = household.index[name]
        x0, y0, x1, y1 = zone.bounds
        center = ((x0 + x1) / 2, (y0 + y1) / 2)
        old = household.areas[slot]
        household.areas[slot] = Area(slot, old.room, center, max(x1 - x0, y1 - y0) / 2)


def write_back(state: State, table: Table, relations: Relations) -> None:
    """Set places, positions, doors and switches of a state to what physics says."""
    household = table.cast.household
    index = household.index
    for name, zone in table.zones.items():
        x0, y0, x1, y1 = zone.bounds
        state.position[index[name]] = ((x0 + x1) / 2, (y0 + y1) / 2, 0.0)
    for name in table.cast.assets:
        slot = index[name]
        low, high = table.bounds(name)
        middle = (low + high) / 2
        state.position[slot] = (float(middle[0]), float(middle[1]), float(low[2]))
        if table.cast.assets[name].door is not None:
            state.opened[slot] = int(relations.opened(name))
        elif "inside" in table.cast.assets[name].places:
            state.opened[slot] = 1  # it has no lid
        if table.cast.assets[name].device is not None:
            state.toggled[slot] = int(relations.switched_on(name))
    for name in table.cast.free:
        slot = index[name]
        state.parent[slot], state.relation[slot] = _place(table, relations, name)
    for name in table.cast.free:
        if _on_itself(state, index[name]):  # two things that lean on each other
            state.parent[index[name]], state.relation[index[name]] = _below(table, name), ONTOP
    held = -1 if relations.held is None else index[relations.held]
    state.hands = [-1, held]
    state.active = _RIGHT
    x, y, z = table.position(HAND)
    state.hand_positions[_RIGHT] = (float(x), float(y), float(z))
    state.version += 1


def _place(table: Table, relations: Relations, name: str) -> tuple[int, int]:
    """What a thing is on or in, and how; the narrowest container counts."""
    index = table.cast.household.index
    if name == relations.held:
        return -1, HELD
    around = [other for other in table.cast.assets if relations.inside(name, other)]
    below = [other for other in table.cast.assets if relations.on_top(name, other)]
    # On a plate in a cabinet: on the plate. In a bowl in a cabinet: in the bowl.
    carriers = [other for other in below if other in table.plan.objects]
    inner = [other for other in around if other in table.plan.objects]
    if inner:
        return index[inner[0]], INSIDE
    if carriers and (around or below[0] not in table.plan.fixtures):
        return index[carriers[0]], ONTOP
    if around:
        return index[around[0]], INSIDE
    if below:
        return index[below[0]], ONTOP
    for floor in table.zones:
        if relations.on_top(name, floor):
            return index[floor], ONTOP
    if table.position(name)[2] < _LOST:
        return -1, ABSENT
    # In no place of its own, such as leaning on a wall.
    return _below(table, name), ONTOP


def _below(table: Table, name: str) -> int:
    """The floor that is the nearest one below a thing."""
    y = table.position(name)[1]
    zones = sorted(table.zones, key=lambda floor: abs(sum(table.zones[floor].bounds[1::2]) / 2 - y))
    return table.cast.household.index[zones[0]]


def _on_itself(state: State, slot: int) -> bool:
    """Whether a thing is on or in something that in the end is on or in it."""
    seen = {slot}
    parent = state.parent[slot]
    while parent >= 0 and parent not in seen:
        seen.add(parent)
        parent = state.parent[parent]
    return parent == slot
