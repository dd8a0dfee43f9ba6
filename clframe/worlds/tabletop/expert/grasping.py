"""Taking hold of movable things: candidate grips, the best one, and a check that it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.tabletop.assets import Grip
from clframe.worlds.tabletop.expert.motion import SLOW, UP, Actions, Dropped, Motion
from clframe.worlds.tabletop.expert.reach import HALF_TURN
from clframe.worlds.tabletop.gripper import HAND, MAX_OPENING, PALM, pointing_down
from clframe.worlds.tabletop.poses import Matrix, Point, rotvec_of_matrix

_BACK = 0.09
"""How far before the grip the hand stops first."""
CLOSING = 0.012
"""How far before the grip the fingers begin to close."""
_EQUAL = 0.01
"""Grips whose costs differ by no more are equally good: a tenth of a radian of turning."""
_DIP = 0.75
"""How far the hand points down when it takes a bowl from the side."""
_POOR = 1.0
"""Cost of a grip from which on an arm looks for others."""
_WORST = 10.0
"""Cost of a grip that leads nowhere."""


@dataclass(frozen=True)
class Candidate:
    """A pose of the hand from which closing the fingers takes hold."""

    position: Point
    rotation: Matrix
    opening: float


Onward = Callable[[Candidate, NDArray[np.float64] | None], float]


def sideways(direction: Point) -> Matrix:
    """Rotation of a hand that points along a direction and closes horizontally."""
    z = direction / np.linalg.norm(direction)
    y = np.cross(z, UP)
    y = y / np.linalg.norm(y)
    return np.stack([np.cross(y, z), y, z], axis=1)


def _along_wall(out: Point, lean: float, direction: Point) -> Matrix:
    """Rotation of a hand that closes across a leaning wall and points as nearly as it then can."""
    y = np.cos(lean) * out - np.sin(lean) * UP
    z = direction - y * (y @ direction)
    z = z / np.linalg.norm(z)
    return np.stack([np.cross(y, z), y, z], axis=1)


class Grasping(Motion):
    """Grips."""

    def grasp(self, name: str, side: bool = False, onward: Onward | None = None) -> Actions:
        """Take hold of a thing; afterwards ``held`` is its name, or None if all tries failed.

        Args:
            name: The thing.
            side: Whether to take it from the side, as placing from the front or lying needs.
            onward: What it costs an arm to go on from a grip.
        """
        for attempt in range(3):
            best = self.choose(name, side, attempt, onward)
            if best is None:
                return
            yield from self._take(name, best)
            if self.held:
                return
        self.held = None

    def choose(
        self, name: str, side: bool, skip: int, onward: Onward | None = None
    ) -> Candidate | None:
        """The candidate whose hand, open and on its way in, is least in other things."""
        candidates = list(self._candidates(name, side))
        costs = [self._cost(candidate, side, onward) for candidate in candidates]
        if self.reach.limited and min(costs, default=0.0) > _POOR:
            more = [
                replace(candidate, rotation=tilted)
                for candidate in candidates
                for tilted in self.reach.tilts(candidate.rotation)
            ]
            candidates += more
            costs += [self._cost(candidate, side, onward) for candidate in more]
        if not candidates:
            return None
        ranked = [(cost, number) for number, cost in enumerate(costs)]
        if self.rng is not None:
            # Equally good ones in any order, so that demonstrations show them all.
            best, ranks = min(costs), self.rng.permutation(len(costs))
            ranked = [
                (best, int(ranks[number])) if cost <= best + _EQUAL else (cost, number)
                for cost, number in ranked
            ]
        order = sorted(range(len(ranked)), key=ranked.__getitem__)
        return candidates[order[min(skip, len(order) - 1)]]

    def _cost(self, candidate: Candidate, side: bool, onward: Onward | None) -> float:
        backs = (0.0, 0.05, 0.10, 0.16, 0.22) if not side else (0.0, 0.05, 0.09)
        poses = [
            (candidate.position - back * candidate.rotation[:, 2], candidate.rotation)
            for back in backs
        ]
        cost = 0.0
        if self.reach.limited:
            depth, missed, joints = self.reach.way(poses[::-1], None, candidate.opening)
            cost = 200 * depth + 0.4 * self.reach.tightness(joints)
            cost += 40 * missed + 400 * max(0.0, missed - 0.015)
            if onward is not None:
                cost += min(_WORST, onward(candidate, joints)) if cost < _POOR else _WORST
        else:
            for pose in poses:
                cost += 200 * self.world.overlap(pose, candidate.opening)
        # From the rest pose and not from the present one: the same scene, the same grip.
        turn = rotvec_of_matrix(candidate.rotation @ pointing_down().T)
        return cost + 0.1 * float(np.sqrt(turn @ turn))

    def _take(self, name: str, grip: Candidate) -> Actions:
        world = self.world
        self.opening = grip.opening
        approach = grip.rotation[:, 2]
        start = self.steps
        if approach[2] < -0.9:
            yield from self.travel(grip.position, grip.rotation, near=0.006, closing=CLOSING)
        else:
            yield from self.travel(grip.position - _BACK * approach, grip.rotation)
            yield from self.slide(grip.position, grip.rotation, closing=CLOSING)
        yield from self.squeeze(name)
        height = world.position(name)[2]
        if world.touching(HAND, name):
            self.held = name
            with suppress(Dropped):
                yield from self._lift(grip.rotation)
        if world.position(name)[2] < height + 0.025:
            self.give_up(start)
            yield from self.release(grip.rotation)

    def _lift(self, rotation: Matrix) -> Actions:
        """Raise what is held; slide it out first if something hangs over it."""
        aside = self._way_out(rotation)
        if aside.any():
            yield from self.go(
                self.hand + aside + 0.012 * UP, rotation, speed=SLOW * 1.5, near=0.01
            )
        yield from self.go(self.hand + 0.06 * UP, rotation, speed=SLOW * 2, near=0.015, steps=20)

    def _way_out(self, rotation: Matrix) -> Point:
        """The shortest shift along the table from which the held thing can rise freely."""
        assert self.held is not None
        world, hand = self.world, self.hand
        thing, turned = world.position(self.held), world.rotation(self.held)
        best, lowest = np.zeros(3), np.inf
        for distance in (0.0, 0.04, 0.08, 0.12):
            for heading in np.arange(8) * np.pi / 4 if distance else (0.0,):
                shift = distance * np.array([np.cos(heading), np.sin(heading), 0.0])
                cost = 0.02 * distance
                for rise in (0.03, 0.08, 0.14, 0.20):
                    by = shift + rise * UP
                    pose, held = (hand + by, rotation), (self.held, thing + by, turned)
                    cost += world.overlap(pose, world.opening, held)
                if cost < lowest:
                    best, lowest = shift, cost
            if lowest < 0.004:
                break
        return best

    def release(
        self, rotation: Matrix, back: float = 0.08, opening: float = MAX_OPENING
    ) -> Actions:
        """Open the fingers and leave against the hand's direction."""
        yield from self.let_go(opening)
        away = self.hand - back * rotation[:, 2]
        yield from self.go(away, rotation, speed=2 * SLOW, near=0.015, steps=25)

    def _candidates(self, name: str, side: bool) -> Iterator[Candidate]:
        asset = self.world.plan.objects[name]
        grip = asset.grip
        if grip is None:
            return
        origin, turned = self.world.position(name), self.world.rotation(name)
        if grip.kind == "across" and turned[2, 2] < 0.7:
            yield from self._toppled(origin, turned[:, 2], grip)
            return
        yaw = float(np.arctan2(turned[1, 0], turned[0, 0]))
        if side and grip.side is not None:
            if grip.kind == "rim":
                yield from self._rim_from_side(origin, yaw, grip)
            else:
                yield from self._from_side(origin, yaw, grip.side, grip.width, grip.yaws)
            return
        top = origin + grip.height * UP
        if grip.kind == "rim":
            for angle in grip.yaws:
                out = np.array([np.cos(yaw + angle), np.sin(yaw + angle), 0.0])
                rotation = _along_wall(out, grip.lean, -UP)
                for same in (rotation, rotation @ HALF_TURN):
                    yield Candidate(top + grip.reach * out, same, 0.065)
        elif grip.kind == "handle":
            out = np.array([np.cos(yaw), np.sin(yaw), 0.0])
            for turn in (0.0, np.pi):
                yield Candidate(top + grip.reach * out, pointing_down(yaw + turn), 0.06)
        else:
            # Deeper where the thing is flat: the palm must stay above it.
            deepest = asset.height - asset.bottom - PALM + 0.008
            top = origin + max(grip.height, deepest) * UP
            closing = grip.yaws or tuple(np.pi / 4 * n for n in range(4))
            for angle in closing:
                for turn in (0.0, np.pi):
                    rotation = pointing_down(yaw + angle - np.pi / 2 + turn)
                    yield Candidate(top, rotation, min(MAX_OPENING, grip.width + 0.03))

    def _from_side(
        self, origin: Point, yaw: float, height: float, width: float, yaws: tuple[float, ...]
    ) -> Iterator[Candidate]:
        closing = yaws or tuple(np.pi / 4 * n for n in range(4))
        for angle in closing:
            for turn in (np.pi / 2, -np.pi / 2):
                heading = yaw + angle + turn
                direction = np.array([np.cos(heading), np.sin(heading), 0.0])
                position = origin + height * UP
                for same in self.reach.turns(sideways(direction)):
                    yield Candidate(position, same, min(MAX_OPENING, width + 0.03))

    def _rim_from_side(self, origin: Point, yaw: float, grip: Grip) -> Iterator[Candidate]:
        """Over the near rim to the wall at the left or right, dipping a little."""
        for angle in grip.yaws:
            out = np.array([np.cos(yaw + angle), np.sin(yaw + angle), 0.0])
            for turn in (1.0, -1.0):
                heading = turn * np.cross(UP, out)
                direction = np.cos(_DIP) * heading - np.sin(_DIP) * UP
                position = origin + grip.reach * out + grip.height * UP
                for same in self.reach.turns(_along_wall(out, grip.lean, direction)):
                    yield Candidate(position, same, 0.05)

    def _toppled(self, origin: Point, axis: Point, grip: Grip) -> Iterator[Candidate]:
        """From above, across a thing that has fallen over."""
        along = float(np.arctan2(axis[1], axis[0]))
        for turn in (0.0, np.pi):
            rotation = pointing_down(along + turn)
            yield Candidate(origin, rotation, min(MAX_OPENING, grip.width + 0.03))
