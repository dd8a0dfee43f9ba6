"""The task level: which literals still have to be made true, and in which order."""

from __future__ import annotations

from clframe.worlds.bddl import BDDLError, Literal
from clframe.worlds.tabletop.world import World

_AJAR = 0.01
"""Meters that a drawer may be out without being in the way."""


def ordered_goals(world: World) -> list[Literal]:
    """Return the remaining subgoals in order; empty when the goal holds.

    Closing goes first where nothing more goes in or something below is needed, then turning on
    and opening, then what carries before what is carried, then closing what had to stay open.

    Raises:
        BDDLError: If the goal asks for something not to hold.
    """
    if world.satisfied():
        return []
    wanted: list[Literal] = []
    option = next(iter(world.problem.goal.options()), ())
    for atom, positive in option:
        if not positive:
            raise BDDLError(f"The expert cannot make {' '.join(atom)!r} false.")
        wanted.append(atom)
    left = [atom for atom in wanted if not world.holds(atom)]
    moves: list[Literal] = [atom for atom in left if len(atom) == 3]
    needed = _needed_open(world, moves)
    steps: list[Literal] = []
    closing = [*_in_the_way(world, [*left, *needed]), *(a for a in left if a[0] == "close")]
    busy = {world.part_of(atom) for atom in needed}
    steps.extend(atom for atom in closing if world.part_of(atom) not in busy)
    steps.extend(atom for atom in left if atom[0] in ("turnon", "turnoff"))
    for atom in (*needed, *(atom for atom in left if atom[0] == "open")):
        if atom not in steps and not world.holds(atom):
            steps.append(atom)
    steps.extend(_carriers_first(moves))
    # What is open now and must end closed, but was needed open, comes last.
    ending = [atom for atom in wanted if atom[0] == "close" and world.part_of(atom) in busy]
    steps.extend(ending)
    return steps


def _needed_open(world: World, moves: list[Literal]) -> list[Literal]:
    """The openings that a thing comes out of or goes into."""
    literals: list[Literal] = []
    for _, name, place in moves:
        for region in world.plan.regions.values():
            if region.ranges or region.target not in world.plan.fixtures:
                continue
            full = region.full_name
            asset = world.plan.fixtures[region.target]
            spec = asset.places[region.name]
            if spec.half[2] == 0 or not (full == place or world.holds(("in", name, full))):
                continue
            if spec.part is not None:
                literals.append(("open", full))
            elif asset.door is not None:
                literals.append(("open", region.target))
    return literals


def _in_the_way(world: World, steps: list[Literal]) -> list[Literal]:
    """Closings of open drawers above those that something is done with."""
    literals: list[Literal] = []
    wanted_open = {atom[1] for atom in steps if atom[0] == "open"}
    for name in {atom[-1] for atom in steps if atom[-1] in world.plan.regions}:
        region = world.plan.regions[name]
        if region.ranges or region.target not in world.plan.fixtures:
            continue
        asset = world.plan.fixtures[region.target]
        height = {part.name: part.pos[2] for part in asset.parts}
        target_part = asset.places[region.name].part
        for place, spec in asset.places.items():
            above = (
                target_part is not None and spec.part and height[spec.part] > height[target_part]
            )
            closing = ("close", f"{region.target}_{place}")
            if not above or closing[1] in wanted_open:
                continue
            if world.joint(world.part_of(closing)) > _AJAR:
                literals.append(closing)
    return sorted(set(literals))


def _carriers_first(moves: list[Literal]) -> list[Literal]:
    """Moves so that a thing is put where it belongs before something is put on it."""
    order: list[Literal] = []
    left = list(moves)
    while left:
        moving = {atom[1] for atom in left}
        ready = [atom for atom in left if atom[2] not in moving] or left[:1]
        order.extend(ready)
        left = [atom for atom in left if atom not in ready]
    return order
