"""Opening, closing and turning: drawers, doors and knobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from clframe.worlds.tabletop.assets import Part
from clframe.worlds.tabletop.expert.grasping import CLOSING, sideways
from clframe.worlds.tabletop.expert.motion import SLOW, UP, Actions
from clframe.worlds.tabletop.expert.placing import Placing
from clframe.worlds.tabletop.expert.reach import HALF_TURN, Pose
from clframe.worlds.tabletop.gripper import pointing_down
from clframe.worlds.tabletop.poses import Matrix, Point, matrix_of_rotvec, rotate_y

_DIP = 0.6
"""How far the hand points down at a drawer's knob, so that it passes over what stands in front."""
_AJAR = 0.6
"""Radians from which on a door can be pushed from behind."""
_PAST = 0.016
"""How far beyond its threshold a part is moved."""


class Parts(Placing):
    """Moves the parts of fixtures."""

    def operate(self, key: str, on: bool) -> Actions:
        """Open or turn on a part, or the opposite.

        Args:
            key: The part's joint.
            on: Whether to open it (or turn it on).
        """
        owner, name = key.split("/")
        part = next(p for p in self.world.plan.fixtures[owner].parts if p.name == name)
        if part.joint.kind == "slide":
            yield from (self._pull(key, part) if on else self._push(key, part))
        elif abs(part.handle[0]) + abs(part.handle[1]) < 1e-6:
            yield from self._turn_knob(key, part, on)
        else:
            yield from self._swing(key, part, on)

    def _frame(self, key: str) -> tuple[Point, Matrix]:
        body = self.world.joints[key].body
        rotation = np.array(self.world.data.xmat[body]).reshape(3, 3)
        return np.array(self.world.data.xpos[body]), rotation

    def _handle(self, key: str, part: Part) -> Point:
        position, rotation = self._frame(key)
        return np.asarray(position + rotation @ np.array(part.handle))

    def _at_drawer(self, key: str, part: Part) -> tuple[Point, Matrix]:
        """The way out of the drawer, and the hand's rotation at its knob."""
        outwards = -self._frame(key)[1][:, 1]
        rotation = sideways(-outwards * np.cos(_DIP) - UP * np.sin(_DIP))
        knob = self._handle(key, part)
        turn, _ = self._reachable(
            lambda turn: [(knob + 0.12 * outwards, rotation @ turn), (knob, rotation @ turn)]
        )
        return outwards, rotation @ turn

    def _reachable(self, way: Callable[[Matrix], list[Pose]]) -> tuple[Matrix, float]:
        """The turn of a hand at a handle with which an arm comes nearest to a way.

        Returns:
            The turn, in the hand's frame, and what is missing.
        """
        if not self.reach.limited:
            return np.eye(3), 0.0
        turns = [
            rotate_y(lean) @ half for half in (np.eye(3), HALF_TURN) for lean in (0.0, -0.4, -0.8)
        ]
        # Of those that do no harm the first.
        missed = [round(self.reach.way(way(turn), None)[1], 2) for turn in turns]
        best = int(np.argmin(missed))
        return turns[best], missed[best]

    def _pull(self, key: str, part: Part) -> Actions:
        world = self.world
        outwards, rotation = self._at_drawer(key, part)
        self.opening = 0.06
        knob = self._handle(key, part)
        yield from self.travel(knob - 0.09 * rotation[:, 2], rotation)
        yield from self.slide(knob, rotation, closing=CLOSING)
        yield from self.squeeze(key.split("/")[0])
        goal = min(part.joint.on_from + _PAST, part.joint.limits[1])
        end = knob + outwards * (goal - world.joint(key) + 0.02)
        yield from self.go(
            end,
            rotation,
            speed=SLOW * 1.5,
            near=0.002,
            steps=60,
            until=lambda: world.joint(key) >= goal,
        )
        yield from self.release(rotation, opening=0.06)

    def _push(self, key: str, part: Part) -> Actions:
        world = self.world
        outwards, rotation = self._at_drawer(key, part)
        self.opening = 0.0
        knob = self._handle(key, part) + outwards * 0.035
        yield from self.travel(knob + 0.05 * outwards - 0.04 * rotation[:, 2], rotation)
        yield from self.go(knob, rotation, speed=SLOW * 2, near=0.008, steps=30)
        end = knob - outwards * (world.joint(key) + 0.06)
        yield from self.go(
            end,
            rotation,
            speed=SLOW * 1.5,
            near=0.002,
            steps=60,
            until=lambda: world.joint(key) <= part.joint.shut,
        )
        yield from self.release(rotation, opening=0.0)

    def _turn_knob(self, key: str, part: Part, on: bool) -> Actions:
        world = self.world
        grip = self._handle(key, part)
        bar = self._frame(key)[1][:, 0]
        rotation = pointing_down(float(np.arctan2(bar[1], bar[0])))
        self.opening = 0.05
        yield from self.travel(grip, rotation, near=0.006, closing=CLOSING)
        yield from self.squeeze(key.split("/")[0])
        for _ in range(50):
            value = world.joint(key)
            if value >= part.joint.on_from + 0.1 if on else value <= part.joint.shut:
                break
            step = 0.25 if on else -0.25
            turned = matrix_of_rotvec(step * UP) @ world.aim[1]
            yield self.action(grip, turned, SLOW)
        yield from self.release(world.aim[1], opening=0.05)

    def _swing(self, key: str, part: Part, on: bool) -> Actions:
        """Take a door by its handle and lead it around its hinge, or push it where an arm must."""
        world = self.world
        goal = part.joint.on_from + 0.12 if on else 0.0
        enough = part.joint.on_from + 0.06 if on else part.joint.shut
        _, missed = self._reachable(partial(self._swung, key, part, goal))
        if not missed:
            yield from self._lead(key, part, goal, enough)
            return
        if on and world.joint(key) < _AJAR:
            yield from self._lead(key, part, _AJAR + 0.05, _AJAR)
        yield from self._shove(key, part, enough)

    def _lead(self, key: str, part: Part, goal: float, enough: float) -> Actions:
        """Take a door by its handle and lead it towards an angle until it is far enough."""
        world = self.world
        self.opening = 0.06
        before = world.joint(key)
        on = goal > before

        def moved() -> bool:
            return abs(world.joint(key) - before) > 0.1

        for _ in range(3):  # the door may be brushed on the way
            before = world.joint(key)
            turn, _ = self._reachable(partial(self._swung, key, part, goal))
            rotation = sideways(self._frame(key)[1][:, 1]) @ turn
            grip = self._handle(key, part)
            yield from self.travel(grip - 0.09 * rotation[:, 2], rotation, until=moved)
            if not moved():
                break
        yield from self.slide(grip, rotation, closing=CLOSING)
        yield from self.squeeze(key.split("/")[0])
        hinge, _ = self._frame(key)
        for _ in range(120):
            value = world.joint(key)
            if value >= enough if on else value <= enough:
                break
            ahead = np.clip(goal - value, -0.10, 0.10) if on else -0.10
            swing = matrix_of_rotvec(self._frame(key)[1] @ np.array(part.joint.axis) * ahead)
            door = swing @ self._frame(key)[1]
            yield self.action(
                hinge + door @ np.array(part.handle), sideways(door[:, 1]) @ turn, SLOW * 2.5
            )
        yield from self.release(world.aim[1], back=0.10, opening=0.06)

    def _swung(self, key: str, part: Part, goal: float, turn: Matrix) -> list[Pose]:
        """Poses of a hand that leads a door around its hinge, from before its handle on."""
        hinge, door = self._frame(key)
        rotation = sideways(door[:, 1]) @ turn
        axis, grip = door @ np.array(part.joint.axis), door @ np.array(part.handle)
        poses = [(hinge + grip - 0.09 * rotation[:, 2], rotation), (hinge + grip, rotation)]
        for share in (0.25, 0.5, 0.75, 1.0):
            swing = matrix_of_rotvec(axis * share * (goal - self.world.joint(key)))
            poses.append((hinge + swing @ grip, swing @ rotation))
        return poses

    def _shove(self, key: str, part: Part, enough: float) -> Actions:
        """Push a door with closed fingers, from behind to open and from before it to close it."""
        world = self.world
        self.opening = 0.0
        on = enough > world.joint(key)
        hinge, _ = self._frame(key)
        axis = self._frame(key)[1] @ np.array(part.joint.axis)
        beside = np.array([0.6 * part.handle[0], 0.03 if on else -0.05, 0.04])

        def point(ahead: float) -> Point:
            return np.asarray(hinge + matrix_of_rotvec(axis * ahead) @ self._frame(key)[1] @ beside)

        rotation = pointing_down()
        yield from self.travel(point(0.0), rotation, near=0.012)
        for _ in range(100):
            value = world.joint(key)
            if value >= enough if on else value <= enough:
                break
            yield self.action(point(0.25 if on else -0.25), rotation, SLOW * 1.5)
        yield from self.go(self.hand + 0.12 * UP, rotation, speed=2 * SLOW, near=0.02, steps=20)
