"""Primitives as motions of the tabletop's expert: every one yields legal actions of the hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from clframe.worlds.behavior.physics.surfaces import Surface, best_spot, spots
from clframe.worlds.behavior.physics.table import Table
from clframe.worlds.behavior.verbs import Verb
from clframe.worlds.tabletop.expert.grasping import Candidate
from clframe.worlds.tabletop.expert.motion import UP, Actions, Dropped
from clframe.worlds.tabletop.expert.parts import Parts
from clframe.worlds.tabletop.expert.placing import Spot
from clframe.worlds.tabletop.gripper import MAX_OPENING, pointing_down
from clframe.worlds.tabletop.poses import Point

_ABOVE = 0.12
_BESIDE = 0.005
_DROPPED = "it slipped out of the hand"
_WAIT_STEPS = 20
_SLACK = 0.022
"""Between the fingers, beyond the width of what they take."""


class Hand(Parts):
    """Does primitives on a table; ``refusal`` says what went wrong with the last one.

    Args:
        table: Whose hand; the caller steps it with each action that is yielded.
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self.table = table
        self.refusal = ""
        self._failures: dict[tuple[str, str], int] = {}

    def do(self, verb: Verb, name: str, floor: str) -> Actions:
        """The actions of a primitive.

        Args:
            verb: What to do.
            name: With which thing.
            floor: The floor on which things are let go.
        """
        self.refusal = ""
        try:
            if verb == Verb.NAVIGATE_TO:
                yield from self._reach(name)
            elif verb == Verb.GRASP:
                yield from self._grasp(name)
            elif verb == Verb.RELEASE:
                yield from self._put_on(floor, inside=False)
            elif verb in (Verb.PLACE_ON_TOP, Verb.PLACE_INSIDE):
                yield from self._put_on(name, inside=verb == Verb.PLACE_INSIDE)
            elif verb == Verb.PLACE_NEXT_TO:
                yield from self._put_beside(name)
            elif verb in (Verb.OPEN, Verb.CLOSE):
                yield from self._move_part(
                    name, self.table.cast.assets[name].door, verb == Verb.OPEN
                )
            elif verb in (Verb.TOGGLE_ON, Verb.TOGGLE_OFF):
                on = verb == Verb.TOGGLE_ON
                yield from self._move_part(name, self.table.cast.assets[name].device, on)
            elif verb == Verb.WAIT:
                yield from self.wait(_WAIT_STEPS)
            else:
                self.refusal = f"{verb.name.lower()} has no physics"
        except Dropped:
            self.refusal = _DROPPED
            yield from self._withdraw()

    def _withdraw(self) -> Actions:
        turned = self.world.aim[1]
        yield from self.release(turned)
        yield from self.go(self.hand + _ABOVE * UP, turned, near=0.02, steps=15)

    def _reach(self, name: str) -> Actions:
        """Bring the hand over a thing or a floor."""
        if name in self.table.zones:
            over = self.table.zone_surface(name).center + 2 * _ABOVE * UP
        else:
            low, high = self.world.bounds(name)
            over = np.array([*(low + high)[:2] / 2, high[2] + _ABOVE])
        if self.held is not None:
            over = over + self.hang() * UP
        turned = self.world.aim[1] if self.held is not None else pointing_down()
        yield from self.travel(over, turned, near=0.02)

    def _grasp(self, name: str) -> Actions:
        if self.table.plan.objects.get(name) is None or self.table.plan.objects[name].grip is None:
            self.refusal = "the hand cannot carry it"
            return
        yield from self.grasp(name)
        if self.held is None:
            self.refusal = "the hand does not get hold of it"

    def _candidates(self, name: str, side: bool) -> Iterator[Candidate]:
        """Grips with the fingers no further open than needed: others stand close by."""
        grip = self.table.cast.assets[name].grip
        for candidate in super()._candidates(name, side):
            if grip is not None and grip.kind == "across":
                candidate = replace(candidate, opening=grip.width + _SLACK)
            yield candidate

    def _letting_go(self, name: str) -> float:
        """How far to open: inside a vessel no further than its walls."""
        grip = self.world.plan.objects[name].grip
        if grip is None or grip.kind == "rim":
            return 0.05
        return min(MAX_OPENING, grip.width + _SLACK)

    def _put_on(self, target: str, inside: bool) -> Actions:
        name = self.held
        assert name is not None
        surface = self.table.surface(target, inside)
        if surface is None:
            self.refusal = "nothing can be put into it"
            return
        asset = self.table.cast.assets.get(target)
        if inside and asset is not None and asset.door is not None:
            key = f"{target}/{asset.door}"
            if self.world.joint(key) < self.world.joints[key].spec.on_from - 0.03:
                self.refusal = "it is not open far enough"
                return
        point = best_spot(self.world, surface, self.table.cast.assets[name].radius, {name})
        if point is None:
            self.refusal = "there is no room"
            return
        yield from self._set_down(name, surface, point)
        relations = self.table.relations(self.held)
        if not (relations.inside(name, target) if inside else relations.on_top(name, target)):
            self.refusal = "it did not stay there"

    def _set_down(self, name: str, surface: Surface, point: Point) -> Actions:
        yield from self.put(Spot(point, surface.owner, UP))
        turned = self.world.aim[1]
        yield from self.go(self.hand + 0.08 * UP, turned, near=0.02, steps=20)

    def _put_beside(self, target: str) -> Actions:
        name = self.held
        assert name is not None
        surface = self._ground_of(target)
        if surface is None:
            self.refusal = "nothing can stand next to it"
            return
        points = self._beside(name, target, surface)
        if not len(points):
            self.refusal = "there is no room next to it"
            return
        failures = self._failures.get((name, target), 0)
        point = points[min(7 * failures, len(points) - 1)]
        yield from self._set_down(name, surface, self._closer(name, target, surface, point))
        if not self.table.relations(self.held).next_to(name, target):
            self._failures[name, target] = failures + 1
            self.refusal = "it did not stay next to it"

    def _closer(self, name: str, target: str, surface: Surface, point: Point) -> Point:
        """A point moved up to a thing, as far as the held one's shape leaves room."""
        turned = self._best_rotation(Spot(point, surface.owner, UP)) @ self._offset()[1]
        low, high = self.world.bounds(target)
        way = np.clip(point, low, high) - point
        way[2] = 0.0
        distance = float(np.linalg.norm(way))
        if distance < 1e-6:
            return point
        along = way / distance
        body = self.table.cast.assets[name].geoms[0]
        reach = self.table.cast.assets[name].radius
        if body.kind == "box" and len(self.table.cast.assets[name].places) == 0:
            reach = float(np.abs(along @ turned) @ np.array(body.size))
        return np.asarray(point + along * max(0.0, distance - reach - 2 * _BESIDE))

    def _ground_of(self, target: str) -> Surface | None:
        """What a thing stands on or in."""
        relations = self.table.relations(self.held)
        for floor in self.table.zones:
            if relations.on_top(target, floor):
                # The place next to a door is where it opens: only standing objects are in the way.
                surface = self.table.zone_surface(floor)
                return Surface(surface.center, surface.rotation, surface.half, surface.owner)
        for other in self.table.cast.assets:
            if relations.inside(target, other):
                return self.table.surface(other, inside=True)
        for other in self.table.cast.assets:
            if relations.on_top(target, other):
                return self.table.surface(other, inside=False)
        return None

    def _beside(self, name: str, target: str, surface: Surface) -> np.ndarray:
        """Points next to a thing, on its ground, the freest first."""
        radius = self.table.cast.assets[name].radius
        points, clear = spots(self.world, surface, radius, {name, target})
        low, high = self.world.bounds(target)
        off = np.maximum(0.0, np.maximum(low[:2] - points[:, :2], points[:, :2] - high[:2]))
        gap = np.hypot(off[:, 0], off[:, 1]) - radius
        straight = off.min(axis=1) < 1e-9
        good = (clear > _BESIDE) & (gap >= _BESIDE) & (gap <= _BESIDE + 0.012) & straight
        chosen = np.flatnonzero(good)
        order = np.argsort(gap[chosen] - 0.5 * np.minimum(clear[chosen], 0.04), kind="stable")
        return np.asarray(points[chosen[order]])

    def _move_part(self, name: str, part: str | None, on: bool) -> Actions:
        if part is None:
            self.refusal = "it has no part that moves"
            return
        key = f"{name}/{part}"
        for _ in range(3):
            yield from self.operate(key, on)
            value, spec = self.world.joint(key), self.world.joints[key].spec
            if value >= spec.on_from - 0.02 if on else value <= spec.off_to * 1.5:
                return
        self.refusal = "it does not move far enough"
