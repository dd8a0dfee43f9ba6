"""Start states: everything where the task's ``:init`` says, free of collisions and at rest."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from clframe.worlds.bddl import BDDLError, Literal
from clframe.worlds.bddl.syntax import InitLiteral
from clframe.worlds.tabletop.poses import Point, quat_of_matrix, rotate_z
from clframe.worlds.tabletop.simulation import Simulation

_ROUNDS = 200
_DEPTH = 0.0008
"""Overlap in meters that counts as a collision; what stands on something sinks in less."""
_LIFT = 0.0006
_SETTLE_STEPS = 40
_MARGIN = 0.08
"""Meters from the workspace's edge that widened rectangles leave free."""


def place_all(world: Simulation, rng: np.random.Generator, spread: float = 0.0) -> None:
    """Set fixtures, joints and objects as ``:init`` says.

    Args:
        world: Where.
        rng: Of all chance.
        spread: Meters by which the rectangles of objects are widened to all sides, and half of it
            for fixtures, which must not come to overlap.

    Raises:
        BDDLError: If ``:init`` cannot be followed, or two things never fit.
    """
    stands = _stands(world)
    for name in world.plan.fixtures:
        _place_fixture(world, name, stands.get(name), rng, spread / 2)
    _set_joints(world, rng)
    world.forward()
    order = _order(world, stands)
    for name in order:
        _place_object(world, stands[name], rng, spread)
    for attempt in range(_ROUNDS):
        world.forward()
        clash = _clash(world)
        if clash is None:
            break
        if attempt == _ROUNDS - 1:
            _refuse(stands, clash, "do not both fit where the task puts them")
        moved = [name for name in order if name in clash]
        if not moved:
            _refuse(stands, clash, "stand still and overlap")
        # Whatever stands on the one that moves must follow it.
        again = {rng.choice(moved)}
        for name in order:
            if name in again or stands[name].literal[2] in again:
                again.add(name)
                _place_object(world, stands[name], rng, spread)
    world.advance(_SETTLE_STEPS)
    world.look()


def _refuse(stands: dict[str, InitLiteral], clash: tuple[str, str], why: str) -> NoReturn:
    entry = next(stands[name] for name in clash if name in stands)
    raise _error(entry, f"{clash[0]} and {clash[1]} {why}; move or widen one of their regions.")


def _stands(world: Simulation) -> dict[str, InitLiteral]:
    """Where each thing starts."""
    entries: dict[str, InitLiteral] = {}
    for entry in world.plan.problem.init_literals:
        predicate, name, *rest = entry.literal
        if not entry.positive or predicate not in ("on", "in") or not rest:
            continue
        if name in entries:
            raise _error(entry, f"{name} starts in two places.")
        entries[name] = entry
    for name in world.plan.objects:
        if name not in entries:
            raise BDDLError(f"{name} is nowhere at the start; put it on or in something.")
    return entries


def _error(entry: InitLiteral, sentence: str) -> BDDLError:
    return BDDLError(sentence, entry.at.line, entry.at.column)


def _order(world: Simulation, stands: dict[str, InitLiteral]) -> list[str]:
    """Objects so that what carries comes before what is carried."""
    order: list[str] = []
    left = list(world.plan.objects)
    while left:
        ready = [n for n in left if _carrier(world, stands[n].literal) not in left]
        if not ready:
            raise _error(stands[left[0]], f"{left[0]} starts on something that starts on it.")
        order.extend(ready)
        left = [n for n in left if n not in ready]
    return order


def _carrier(world: Simulation, literal: Literal) -> str:
    """The thing that a literal puts another on or in."""
    place = literal[2]
    return world.plan.regions[place].target if place in world.plan.regions else place


def _place_fixture(
    world: Simulation,
    name: str,
    entry: InitLiteral | None,
    rng: np.random.Generator,
    spread: float,
) -> None:
    if entry is None:
        raise BDDLError(f"{name} is nowhere at the start; put it on a region of the workspace.")
    region = world.plan.regions.get(entry.literal[2])
    if region is None or not region.ranges:
        raise _error(entry, f"{name} must start on a rectangle of the workspace.")
    x, y = _point_in(world, region.ranges, rng, spread)
    yaw = rng.uniform(*region.yaw) if region.yaw else 0.0
    world.set_fixture(name, np.array([x, y, 0.0]), yaw)


def _point_in(
    world: Simulation,
    ranges: tuple[tuple[float, float, float, float], ...],
    rng: np.random.Generator,
    spread: float,
) -> tuple[float, float]:
    x0, y0, x1, y1 = ranges[rng.integers(len(ranges))] if len(ranges) > 1 else ranges[0]
    if spread:
        (x0, x1), (y0, y1) = (
            (min(low, max(low - spread, -edge)), max(high, min(high + spread, edge)))
            for low, high, edge in zip(
                (x0, y0), (x1, y1), np.subtract(world.plan.arena.half, _MARGIN), strict=True
            )
        )
    return rng.uniform(x0, x1), rng.uniform(y0, y1)


def _set_joints(world: Simulation, rng: np.random.Generator) -> None:
    for key in world.joints:
        world.set_joint(key, 0.0)
    for entry in world.plan.problem.init_literals:
        predicate = entry.literal[0]
        if predicate in ("open", "turnon") and entry.positive:
            key = world.part_of(entry.literal)
            world.set_joint(key, rng.uniform(*world.joints[key].spec.start_on))
        elif predicate in ("close", "turnoff") and entry.positive:
            key = world.part_of(entry.literal)
            world.set_joint(key, world.joints[key].spec.shut)


def _place_object(
    world: Simulation, entry: InitLiteral, rng: np.random.Generator, spread: float
) -> None:
    predicate, name, place = entry.literal
    asset = world.plan.objects[name]
    yaw = rng.uniform(*asset.yaw)
    region = world.plan.regions.get(place)
    if region is not None and region.ranges:
        x, y = _point_in(world, region.ranges, rng, spread)
        position: Point = np.array([x, y, 0.0])
        if region.yaw:
            yaw = rng.uniform(*region.yaw)
    elif region is not None and region.target != world.plan.workspace:
        spot = world.place(place)
        position = spot.pos - [0, 0, spot.half[2]]
        shift = rng.uniform(-0.01, 0.01, size=2)
        position = position + spot.rotation @ [*(shift + spot.spots[0]), 0.0]
    elif place in world.plan.objects and predicate == "on":
        below = world.plan.objects[place]
        shift = rng.uniform(-0.004, 0.004, size=2)
        position = world.position(place) + np.array([*shift, below.height - below.bottom])
    else:
        raise _error(entry, f"{name} cannot start {predicate} {place}.")
    position = position + np.array([0, 0, asset.bottom + _LIFT])
    world.set_object(name, position, quat_of_matrix(rotate_z(yaw)))
    world.forward()


def _clash(world: Simulation) -> tuple[str, str] | None:
    """Two things that overlap, at least one of them movable."""
    contacts = world.data.contact
    deep = np.flatnonzero(contacts.dist < -_DEPTH)
    for index in deep:
        one, other = (world.owner_of(int(geom)) for geom in contacts.geom[index])
        if one != other and {one, other} & set(world.plan.objects):
            return one, other
    return None
