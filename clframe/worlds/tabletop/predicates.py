"""What holds in a world: LIBERO's predicates and BEHAVIOR's kinematic ones.

LIBERO's are defined as its published code tests them, on our models: ``on`` an object is contact,
not below it, and at most 3 cm off its axis; ``on`` a surface is contact with its thing and an
origin over it, from 5 mm below to 10 cm above; ``in`` is an origin inside the place's box, or at
most 1 cm below it; ``open``, ``close``, ``turnon`` and ``turnoff`` compare a joint with LIBERO's
thresholds. Two differences: ``on`` a rectangle of the workspace asks for contact with the workspace
too, so that a thing still in the air is not yet there; and boxes of things that are turned turn
with them, where LIBERO's stay along the world's axes, grown to hold the turned corners.

BEHAVIOR's (Srivastava et al. 2021): ``ontop`` is contact with the upper thing's origin above;
``inside`` is an origin in the other's bounding box, or in one of its places; ``under`` is below
within the other's outline; ``nextto`` is a gap of at most 1/6 of the mean size; ``touching`` is
contact; ``onfloor`` is contact with the floor.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from clframe.errors import nearest
from clframe.worlds.bddl import BDDLError, Literal
from clframe.worlds.tabletop.poses import Point
from clframe.worlds.tabletop.simulation import Simulation

_OFF_AXIS = 0.03
_SLACK = 0.01
_SUNK, _RAISED = 0.005, 0.10
"""How far below and above a surface the origin of what is on it may be."""


def holds(world: Simulation, literal: Literal) -> bool:
    """Whether a literal holds now.

    Raises:
        BDDLError: If the predicate is not one the simulation can decide, or not of such things.
    """
    predicate = PREDICATES.get(literal[0])
    if predicate is None:
        sentence = f"The simulation cannot decide {literal[0]!r}; {nearest(literal[0], PREDICATES)}"
        raise BDDLError(sentence)
    return predicate(world, literal)


def _on(world: Simulation, literal: Literal) -> bool:
    _, name, place = literal
    region = world.plan.regions.get(place)
    if region is None:
        return _on_object(world, name, place)
    here = world.position(name)
    if region.ranges:
        over = any(x0 <= here[0] <= x1 and y0 <= here[1] <= y1 for x0, y0, x1, y1 in region.ranges)
        return over and world.touching(name, region.target)
    spot = world.place(place)
    offset = spot.rotation.T @ (here - spot.pos)
    over = bool((np.abs(offset[:2]) <= spot.half[:2]).all())
    level = -_SUNK <= offset[2] - spot.half[2] <= _RAISED
    return over and bool(level) and world.touching(name, region.target)


def _on_object(world: Simulation, name: str, other: str) -> bool:
    if other == world.plan.workspace:
        return world.touching(name, other)
    apart = world.position(name) - world.position(other)
    if apart[2] < 0 or np.hypot(apart[0], apart[1]) >= _OFF_AXIS:
        return False
    return world.touching(name, other)


def _in(world: Simulation, literal: Literal) -> bool:
    _, name, place = literal
    region = world.plan.regions.get(place)
    if region is None or region.ranges:
        raise BDDLError(f"{name} cannot be in {place}, which has no inside.")
    return _inside_place(world, name, place)


def _inside_place(world: Simulation, name: str, place: str) -> bool:
    spot = world.place(place)
    offset = spot.rotation.T @ (world.position(name) - spot.pos)
    low = offset[2] >= -spot.half[2] - _SLACK
    return bool(low and (np.abs(offset[:2]) <= spot.half[:2]).all() and offset[2] <= spot.half[2])


def _is_on(world: Simulation, literal: Literal) -> bool:
    key = world.part_of(literal)
    return world.joint(key) >= world.joints[key].spec.on_from


def _is_off(world: Simulation, literal: Literal) -> bool:
    key = world.part_of(literal)
    return world.joint(key) < world.joints[key].spec.off_to


def _up(world: Simulation, literal: Literal) -> bool:
    # LIBERO measures from the floor.
    return bool(world.position(literal[1])[2] + world.plan.arena.height >= 1.0)


def _touching(world: Simulation, literal: Literal) -> bool:
    return world.touching(literal[1], literal[2])


def _ontop(world: Simulation, literal: Literal) -> bool:
    _, name, other = literal
    higher = other == world.plan.workspace or world.position(name)[2] > world.position(other)[2]
    return bool(higher) and world.touching(name, other)


def _inside(world: Simulation, literal: Literal) -> bool:
    _, name, other = literal
    places = [r.full_name for r in world.plan.regions.values() if r.target == other]
    if any(_inside_place(world, name, place) for place in places if world.place(place).half[2] > 0):
        return True
    low, high = world.bounds(other)
    here = world.position(name)
    return bool((here >= low).all() and (here <= high).all())


def _under(world: Simulation, literal: Literal) -> bool:
    _, name, other = literal
    low, high = world.bounds(other)
    here = world.position(name)
    return bool((here[:2] >= low[:2]).all() and (here[:2] <= high[:2]).all() and here[2] < high[2])


def _nextto(world: Simulation, literal: Literal) -> bool:
    one, other = world.bounds(literal[1]), world.bounds(literal[2])
    gap = np.maximum(0.0, np.maximum(one[0] - other[1], other[0] - one[1]))
    size: Point = (one[1] - one[0]) + (other[1] - other[0])
    return bool(np.linalg.norm(gap) <= size.mean() / 6)


def _onfloor(world: Simulation, literal: Literal) -> bool:
    return world.touching(literal[1], "floor")


PREDICATES: dict[str, Callable[[Simulation, Literal], bool]] = {
    "on": _on,
    "in": _in,
    "open": _is_on,
    "close": _is_off,
    "turnon": _is_on,
    "turnoff": _is_off,
    "up": _up,
    "true": lambda world, literal: True,
    "false": lambda world, literal: False,
    "ontop": _ontop,
    "inside": _inside,
    "under": _under,
    "nextto": _nextto,
    "touching": _touching,
    "onfloor": _onfloor,
}
