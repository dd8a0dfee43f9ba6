"""Putting down what is held: on things, in things from above, and in things from the front."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.bddl import Literal
from clframe.worlds.tabletop.expert.grasping import Candidate, Grasping
from clframe.worlds.tabletop.expert.motion import SLOW, UP, Actions
from clframe.worlds.tabletop.gripper import HAND, MAX_OPENING, pointing_down
from clframe.worlds.tabletop.poses import Matrix, Point, rotate_z, rotvec_of_matrix

_LYING = 0.3
"""Radians that a thing may miss when it is laid down."""


@dataclass(frozen=True)
class Spot:
    """Where a thing is to be put.

    Attributes:
        point: The surface under it.
        owner: What it will touch.
        entry: Direction from which the spot is reached.
        lying: Whether a long thing lies there on its side.
        along: Direction of its long side, if the spot has one.
        drop: Height above the point at which it is let go.
        aside: How far it may be put to the left or right of the point.
        depth: From the point to where the thing is clear of the entry.
    """

    point: Point
    owner: str
    entry: Point
    lying: bool = False
    along: Point | None = None
    drop: float = 0.012
    aside: float = 0.0
    depth: float = 0.0


class Placing(Grasping):
    """Places."""

    def spot_for(self, literal: Literal, number: int = 0) -> Spot:
        """The spot that makes an ``on`` or ``in`` true.

        Args:
            literal: The literal.
            number: How many things are there already.
        """
        world = self.world
        _, name, place = literal
        region = world.plan.regions.get(place)
        if region is None:
            below = world.plan.objects[place]
            rise = 0.008 if below.grip and below.grip.kind == "rim" else below.height - below.bottom
            return Spot(world.position(place) + rise * UP, place, UP)
        if region.ranges:
            x0, y0, x1, y1 = region.ranges[0]
            return Spot(np.array([(x0 + x1) / 2, (y0 + y1) / 2, 0.0]), region.target, UP)
        spec = world.plan.asset(region.target).places[region.name]
        now = world.place(place)
        x, y = spec.spots[number % len(spec.spots)]
        asset = world.plan.objects[name]
        lying = spec.lying and asset.long
        if lying and spec.half[2] > 0:
            # As far to the front as it goes, since a fixture hangs over the back.
            y = asset.radius + 0.010 - spec.half[1]
        point = now.pos + now.rotation @ np.array([x, y, -spec.half[2]])
        entry = now.rotation @ np.array(spec.entry)
        deep = literal[0] == "in" and entry[2] > 0.5
        return Spot(
            point,
            region.target,
            entry,
            lying,
            now.rotation @ np.array(spec.along),
            0.015 if deep else 0.012,
            max(0.0, spec.half[0] - asset.radius - 0.03),
            spec.half[1] + asset.radius + 0.025,
        )

    def put(self, spot: Spot) -> Actions:
        """Put down what is held."""
        if spot.entry[2] > 0.5:
            yield from self._from_above(spot)
        else:
            yield from self._from_front(spot)

    def _offset(self) -> tuple[Point, Matrix]:
        """Where the held thing is and how it is turned, in the hand's frame."""
        assert self.held is not None
        turned = self.world.rotation(HAND)
        shift = turned.T @ (self.world.position(self.held) - self.hand)
        return shift, turned.T @ self.world.rotation(self.held)

    def _from_above(self, spot: Spot) -> Actions:
        name = self.held
        assert name is not None
        rotation = self._best_rotation(spot)
        rise = self._rise(rotation)
        goal = spot.point + (rise + spot.drop) * UP

        def over() -> Point:
            """The hand's place that brings the thing's origin to the goal, as it is held now."""
            return np.asarray(goal - rotation @ self._offset()[0])

        landed = 0

        def touches() -> bool:
            nonlocal landed
            turn = rotvec_of_matrix(rotation @ self.world.rotation(HAND).T)
            # What is to lie may touch with its foot while it still stands.
            down = self.world.touching(name, spot.owner) and not (
                spot.lying and turn @ turn > _LYING**2
            )
            landed = landed + 1 if down else 0
            return landed >= 2

        yield from self.travel(over, rotation, near=0.008, until=touches)
        yield from self.release(rotation, opening=self._letting_go(name))

    def _letting_go(self, name: str) -> float:
        """How far to open: inside a vessel no further than its walls."""
        grip = self.world.plan.objects[name].grip
        return 0.05 if grip is not None and grip.kind == "rim" else MAX_OPENING

    def _rise(self, rotation: Matrix) -> float:
        """How far the held thing will reach below its origin once the hand is turned so."""
        assert self.held is not None
        asset = self.world.plan.objects[self.held]
        turned = rotation @ self._offset()[1]
        upright = float(turned[2, 2])
        if upright > 0.8:
            return asset.bottom
        return asset.radius

    def _rotations(self, spot: Spot, name: str, turned: Matrix, long: Point) -> Iterator[Matrix]:
        """Hand rotations to choose from.

        Args:
            spot: Where it goes.
            name: The thing, turned as it is now.
            turned: How the hand is turned.
            long: The thing's long axis in the hand's frame.
        """
        if spot.lying:
            assert spot.along is not None
            flat = float(np.arctan2(*(pointing_down() @ long)[1::-1]))
            way = float(np.arctan2(spot.along[1], spot.along[0]))
            for turn in (0.0, np.pi):
                yield pointing_down(way - flat + turn)
            return
        grip = self.world.plan.objects[name].grip
        tight = grip is not None and grip.yaws and grip.kind == "across" and spot.along is not None
        if tight and spot.along is not None and spot.drop > 0.013:
            # A thing with sides goes along the place: turn its longer side there.
            side = self.world.rotation(name)[:, 1 if grip and grip.yaws[0] == 0.0 else 0]
            now = float(np.arctan2(side[1], side[0]))
            way = float(np.arctan2(spot.along[1], spot.along[0]))
            for turn in (0.0, np.pi):
                yield rotate_z(way - now + turn) @ turned
            return
        for number in range(8):
            yield rotate_z(np.pi / 4 * number) @ turned

    def _best_rotation(self, spot: Spot) -> Matrix:
        """The rotation at which neither hand nor thing would be in anything else."""
        world = self.world
        assert self.held is not None
        shift, inner = self._offset()
        best, lowest = world.aim[1], np.inf
        for rotation in self._rotations(spot, self.held, world.aim[1], inner[:, 2]):
            # Judged a little above the end, where only sideways overlap counts.
            goal = spot.point + (self._rise(rotation) + spot.drop + 0.012) * UP
            position = goal - rotation @ shift
            held = (self.held, position + rotation @ shift, rotation @ inner)
            depth, missed, _ = self.reach.way(
                [(position, rotation)], self.reach.now(), world.opening, [held]
            )
            cost = 200 * depth + 100 * missed
            cost += 0.1 * (1 - (np.trace(rotation @ world.aim[1].T) - 1) / 2)
            if cost < lowest - 1e-9:
                best, lowest = rotation, cost
        return best

    def putting(
        self, spot: Spot, name: str, grip: Candidate, joints: NDArray[np.float64] | None
    ) -> float:
        """What it costs an arm to put a thing down that it holds so."""
        world = self.world
        thing, turned = world.position(name), world.rotation(name)
        shift, inner = grip.rotation.T @ (thing - grip.position), grip.rotation.T @ turned
        lifted = (grip.position + 0.1 * UP, grip.rotation)
        goal = spot.point + (world.plan.objects[name].bottom + 0.02) * UP
        if spot.entry[2] > 0.5:
            before = goal + 0.1 * UP
            rotations = list(self._rotations(spot, name, grip.rotation, inner[:, 2]))
        else:
            before = goal + spot.depth * spot.entry
            rotations = [self._turned_in(spot, name, grip.rotation, turned)]
        lowest = np.inf
        for rotation in rotations:
            points = before, (before + goal) / 2, goal
            hands = [(point - rotation @ shift, rotation) for point in points]
            held = [(name, point, rotation @ inner) for point in points]
            _, missed, there = self.reach.way([lifted], joints)
            depth, more, _ = self.reach.way(hands, there, 0.06, held)
            lowest = min(lowest, 100 * max(missed, more) + 50 * depth)
            if lowest < 0.1:
                break
        return float(lowest)

    def _turned_in(self, spot: Spot, name: str, hand: Matrix, thing: Matrix) -> Matrix:
        """The hand's rotation in front of an entry, turned about the vertical."""
        grip = self.world.plan.objects[name].grip
        inwards = -spot.entry
        if grip is not None and grip.kind == "handle":
            # The handle stays outside, towards the entry.
            handle = thing[:, 0]
            turn = np.arctan2(spot.entry[1], spot.entry[0]) - np.arctan2(handle[1], handle[0])
        else:
            # As it is held, turned until the hand points in.
            pointing = hand[:, 2]
            turn = np.arctan2(inwards[1], inwards[0]) - np.arctan2(pointing[1], pointing[0])
        return rotate_z(float(turn)) @ hand

    def _from_front(self, spot: Spot) -> Actions:
        name = self.held
        assert name is not None
        asset = self.world.plan.objects[name]
        rotation = self._turned_in(spot, name, self.world.aim[1], self.world.rotation(name))
        goal = self._free_way(spot, rotation, spot.point + (asset.bottom + 0.006) * UP)

        def before(distance: float) -> Point:
            shift = rotation @ self._offset()[0]
            return np.asarray(goal + distance * spot.entry - shift)

        yield from self.travel(before(spot.depth), rotation)
        yield from self.go(
            lambda: before(spot.depth), rotation, near=0.006, speed=SLOW * 2, steps=25
        )
        yield from self.go(lambda: before(0.0), rotation, near=0.008, speed=SLOW * 1.5, steps=50)
        if asset.grip is not None and asset.grip.kind == "handle":
            yield from self.release(rotation, back=0.10)
            return
        yield from self.let_go(MAX_OPENING)
        yield from self.go(self.hand + 0.20 * spot.entry, rotation, speed=SLOW * 2, near=0.02)

    def _free_way(self, spot: Spot, rotation: Matrix, goal: Point) -> Point:
        """The goal, moved aside if that leaves hand and thing a freer way in."""
        assert self.held is not None
        shift, inner = self._offset()
        across = np.cross(UP, spot.entry)
        best, lowest = goal, np.inf
        for part in (0.0, 0.5, -0.5, 1.0, -1.0):
            moved = goal + part * spot.aside * across
            things = [
                moved + share * spot.depth * spot.entry for share in (1.0, 0.75, 0.5, 0.25, 0.0)
            ]
            cost, missed, _ = self.reach.way(
                [(thing - rotation @ shift, rotation) for thing in things],
                self.reach.now(),
                self.world.opening,
                [(self.held, thing, rotation @ inner) for thing in things],
            )
            cost += 0.002 * abs(part) + missed
            if cost < lowest:
                best, lowest = moved, cost
        return best
