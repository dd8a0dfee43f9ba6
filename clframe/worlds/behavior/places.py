"""Where things stand: containment, reach, and free places on supports."""

from __future__ import annotations

from functools import cache
from math import cos, pi, sin

from clframe.worlds.behavior.categories import Can
from clframe.worlds.behavior.household import Household
from clframe.worlds.behavior.state import ABSENT, HELD, INSIDE, Point, State

REACH = 1.5
"""How far the agent reaches from where it stands, in meters."""
_REACH_SQUARED = REACH * REACH
_GAP = 0.01
"""Things put next to each other are this far apart, which counts as touching."""
_CELL = 0.2
_GRID = [(x * _CELL, y * _CELL) for y in (0, 1, -1) for x in (0, 1, -1, 2, -2)]
_RING = [
    (radius * cos(turn * pi / 6), radius * sin(turn * pi / 6))
    for radius in (0.5, 0.8, 1.1, 1.4)
    for turn in range(12)
]
_NOWHERE = (ABSENT, HELD)
_OPENABLE = int(Can.OPENABLE)


def in_reach(household: Household, state: State, slot: int) -> bool:
    """Whether the agent can touch a thing from where it stands."""
    if household.floor[slot]:
        return state.area == slot
    x, y, _ = state.position[slot]
    dx, dy = x - state.base[0], y - state.base[1]
    return dx * dx + dy * dy <= _REACH_SQUARED


def shut_in(household: Household, state: State, slot: int) -> int:
    """The outermost closed container around a thing, or -1."""
    found = -1
    parents, relations = state.parent, state.relation
    while (parent := parents[slot]) >= 0:
        closed = relations[slot] == INSIDE and not state.opened[parent]
        if closed and household.can[parent] & _OPENABLE:
            found = parent
        slot = parent
    return found


def family(state: State, slot: int) -> list[int]:
    """A thing and all that is on, in or attached to it."""
    found = [slot]
    parents = state.parent
    if slot in parents:
        for member in found:
            found.extend(child for child, parent in enumerate(parents) if parent == member)
    return found


def is_part_of(state: State, slot: int, whole: int) -> bool:
    """Whether a thing is, is on, is in or is attached to another, over any number of steps."""
    while slot >= 0:
        if slot == whole:
            return True
        slot = state.parent[slot]
    return False


def move(state: State, slot: int, to: Point) -> None:
    """Bring a thing somewhere, with all that is on and in it."""
    x, y, z = state.position[slot]
    dx, dy, dz = to[0] - x, to[1] - y, to[2] - z
    for member in family(state, slot):
        x, y, z = state.position[member]
        state.position[member] = (x + dx, y + dy, z + dz)


def top_of(household: Household, state: State, slot: int) -> float:
    """The height of a thing's upper side."""
    return 0.0 if household.floor[slot] else state.position[slot][2] + household.half[slot][2]


def _free(household: Household, state: State, slot: int, spot: Point, others: list[int]) -> bool:
    hx, hy, _ = household.half[slot]
    for other in others:
        x, y, z = state.position[other]
        ox, oy, _ = household.half[other]
        above = abs(x - spot[0]) < hx + ox - 1e-9 and abs(y - spot[1]) < hy + oy - 1e-9
        if above and abs(z - spot[2]) < 0.05:
            return False
    return True


def _siblings(state: State, slot: int, support: int) -> list[int]:
    return [
        child for child, parent in enumerate(state.parent) if parent == support and child != slot
    ]


def spot_on_top(household: Household, state: State, slot: int, support: int) -> Point:
    """A free place on a support; on the ground, one around the agent. What is full is piled up."""
    others = _siblings(state, slot, support)
    if household.floor[support]:
        others = others + [place for place, area in household.area_of.items() if area == support]
        area = household.areas[support]
        for dx, dy in _RING:
            x, y = state.base[0] + dx, state.base[1] + dy
            inside = abs(x - area.center[0]) <= area.half and abs(y - area.center[1]) <= area.half
            if inside and _free(household, state, slot, (x, y, 0.0), others):
                return x, y, 0.0
        return state.base[0], state.base[1], 0.0
    x, y, _ = state.position[support]
    hx, hy, _ = household.half[support]
    height = top_of(household, state, support)
    for layer in range(30):
        for dx, dy in _GRID:
            spot = (x + dx, y + dy, height + 0.1 * layer)
            if abs(dx) < hx and abs(dy) < hy and _free(household, state, slot, spot, others):
                return spot
    return x, y, height


def spot_inside(household: Household, state: State, slot: int, container: int) -> Point:
    """A place in a container, which packs things closely and is never full."""
    x, y, z = state.position[container]
    place = len(_siblings(state, slot, container))
    return (
        x + 0.12 * (place % 3 - 1),
        y + 0.12 * (place // 3 % 3 - 1),
        z + 0.05 + 0.12 * (place // 9),
    )


@cache
def _beside(
    half: tuple[float, float, float], target: tuple[float, float, float]
) -> list[tuple[float, float]]:
    """Steps from the middle of a box to places where another touches it, in order of trial."""
    (hx, hy, _), (tx, ty, _) = half, target
    away_x, away_y = hx + tx + _GAP, hy + ty + _GAP
    shifts = (0.0, 0.22, -0.22, 0.44, -0.44)
    # Along a short side only small shifts still touch.
    steps = [(away_x, s) for s in shifts if abs(s) <= ty + hy * 0.5]
    steps += [(-away_x, s) for s in shifts if abs(s) <= ty + hy * 0.5]
    steps += [(s, away_y) for s in shifts if abs(s) <= tx + hx * 0.5]
    steps += [(s, -away_y) for s in shifts if abs(s) <= tx + hx * 0.5]
    return steps + [(a, b) for a in (away_x, -away_x) for b in (away_y, -away_y)]


def children(state: State) -> dict[int, list[int]]:
    """What is directly on, in or attached to each thing; -1 for what has no parent."""
    found: dict[int, list[int]] = {}
    for child, parent in enumerate(state.parent):
        if parent in found:
            found[parent].append(child)
        else:
            found[parent] = [child]
    return found


def spot_beside(
    household: Household,
    state: State,
    slot: int,
    target: int,
    below: dict[int, list[int]] | None = None,
) -> Point | None:
    """A free place on the target's support that touches the target, or None.

    Args:
        household: The household.
        state: Its state.
        slot: What is to be put there.
        target: The object that it is put next to.
        below: `children` of the state, where it is known already.
    """
    half, position = household.half, state.position
    x, y, z = position[target]
    hx, hy, _ = half[slot]
    below = children(state) if below is None else below
    support = state.parent[target]
    if support >= 0:
        others = below.get(support, [])
    else:
        floor = household.area_of.get(target, -1)
        others = below.get(floor, []) + [
            other for other, area in household.area_of.items() if area == floor
        ]
    blocking = []
    for other in others:
        u, v, w = position[other]
        if abs(w - z) < 0.05 and other != slot and other != target:
            ox, oy, _ = half[other]
            blocking.append((u, v, hx + ox - 1e-9, hy + oy - 1e-9))
    for dx, dy in _beside(half[slot], half[target]):
        sx, sy = x + dx, y + dy
        for u, v, wide, deep in blocking:
            if abs(u - sx) < wide and abs(v - sy) < deep:
                break
        else:
            return sx, sy, z
    return None


def gap(household: Household, state: State, first: int, second: int) -> float | None:
    """The horizontal distance of two boxes; None if they overlap or differ in height."""
    x, y, z = state.position[first]
    u, v, w = state.position[second]
    hx, hy, hz = household.half[first]
    kx, ky, kz = household.half[second]
    if z >= w + kz or w >= z + hz:
        return None
    dx, dy = abs(x - u) - hx - kx, abs(y - v) - hy - ky
    if dx < -1e-9 and dy < -1e-9:
        return None
    dx, dy = max(dx, 0.0), max(dy, 0.0)
    distance: float = (dx * dx + dy * dy) ** 0.5
    return distance


def next_to(household: Household, state: State, first: int, second: int) -> bool:
    """BEHAVIOR's rule: the gap is at most a sixth of the boxes' mean extent, both added up."""
    if household.floor[first] or household.floor[second]:
        return False
    if state.relation[first] in _NOWHERE or state.relation[second] in _NOWHERE:
        return False
    between = gap(household, state, first, second)
    if between is None:
        return False
    a, b = household.half[first], household.half[second]
    extent = (2 * (a[0] + a[1] + b[0] + b[1]) + a[2] + b[2]) / 3
    return between <= extent / 6


def touching(household: Household, state: State, first: int, second: int) -> bool:
    """Whether one is on, in or attached to the other, or they stand side by side."""
    if state.parent[first] == second or state.parent[second] == first:
        return True
    if state.leaning[first] == second or state.leaning[second] == first:
        return True
    if (first, second) in state.joints or (second, first) in state.joints:
        return True
    if household.floor[first] or household.floor[second]:
        return False
    if state.relation[first] in _NOWHERE or state.relation[second] in _NOWHERE:
        return False
    between = gap(household, state, first, second)
    return between is not None and between <= 2 * _GAP
