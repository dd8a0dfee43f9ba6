"""Opening, closing and turning: drawers, doors and knobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from clframe.streams.tabletop.assets import Part
from clframe.streams.tabletop.expert.grasping import sideways
from clframe.streams.tabletop.expert.motion import SLOW, UP, Actions
from clframe.streams.tabletop.expert.placing import Placing
from clframe.streams.tabletop.expert.reach import Pose
from clframe.streams.tabletop.gripper import pointing_down
from clframe.streams.tabletop.poses import Matrix, Point, matrix_of_rotvec

_DIP = 0.6
"""How far the hand points down at a drawer's knob, so that it passes over what stands in front."""
_PAST = 0.016
"""How far beyond its threshold a part is moved."""


class Parts(Placing):
    """Moves the parts of fixtures."""

    def operate(self, key: str, on: bool) -> Actions:
        """Open or turn on a part, or the opposite.

        Args:
            key: The part's joint.
            on: Whether it shall be open (or on).
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
        return outwards, self._reachable(
            rotation, lambda turned: [(knob + 0.12 * outwards, turned), (knob, turned)]
        )

    def _reachable(self, rotation: Matrix, way: Callable[[Matrix], list[Pose]]) -> Matrix:
        """Of the rotations that grip alike the one with which an arm comes nearest to a way."""
        turns = list(self.reach.turns(rotation))
        if len(turns) == 1:
            return rotation
        return turns[int(np.argmin([self.reach.way(way(turn), None)[1] for turn in turns]))]

    def _pull(self, key: str, part: Part) -> Actions:
        world = self.world
        outwards, rotation = self._at_drawer(key, part)
        self.opening = 0.06
        knob = self._handle(key, part)
        yield from self.travel(knob - 0.09 * rotation[:, 2], rotation)
        yield from self.slide(knob, rotation)
        yield from self.fingers(0.0)
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
            until=lambda: world.joint(key) <= part.joint.off_to * 0.5,
        )
        yield from self.release(rotation, opening=0.0)

    def _turn_knob(self, key: str, part: Part, on: bool) -> Actions:
        world = self.world
        grip = self._handle(key, part)
        bar = self._frame(key)[1][:, 0]
        rotation = pointing_down(float(np.arctan2(bar[1], bar[0])))
        self.opening = 0.05
        yield from self.travel(grip, rotation, near=0.006)
        yield from self.fingers(0.0)
        for _ in range(50):
            value = world.joint(key)
            if value >= part.joint.on_from + 0.1 if on else value <= part.joint.off_to * 0.5:
                break
            step = 0.25 if on else -0.25
            turned = matrix_of_rotvec(step * UP) @ world.aim[1]
            yield self.action(grip, turned, SLOW)
        yield from self.release(world.aim[1], opening=0.05)

    def _swing(self, key: str, part: Part, on: bool) -> Actions:
        """Take a door by its handle and lead it around its hinge."""
        world = self.world
        self.opening = 0.06
        before = world.joint(key)

        def moved() -> bool:
            return abs(world.joint(key) - before) > 0.1

        for _ in range(3):  # the door may be brushed on the way
            before = world.joint(key)
            grip = self._handle(key, part)
            plain = sideways(self._frame(key)[1][:, 1])
            rotation = self._reachable(plain, partial(self._swung, key, part, on))
            yield from self.travel(grip - 0.09 * rotation[:, 2], rotation, until=moved)
            if not moved():
                break
        yield from self.slide(grip, rotation)
        yield from self.fingers(0.0)
        hinge, _ = self._frame(key)
        goal = part.joint.on_from + 0.12 if on else 0.0
        turned = plain.T @ rotation
        for _ in range(120):
            value = world.joint(key)
            if value >= part.joint.on_from + 0.06 if on else value <= part.joint.off_to * 0.4:
                break
            ahead = np.clip(goal - value, -0.10, 0.10) if on else -0.10
            swing = matrix_of_rotvec(self._frame(key)[1] @ np.array(part.joint.axis) * ahead)
            door = swing @ self._frame(key)[1]
            yield self.action(
                hinge + door @ np.array(part.handle), sideways(door[:, 1]) @ turned, SLOW * 2.5
            )
        yield from self.release(world.aim[1], back=0.10, opening=0.06)

    def _swung(self, key: str, part: Part, on: bool, rotation: Matrix) -> list[Pose]:
        """Poses of a hand that leads a door around its hinge, from before its handle on."""
        hinge, door = self._frame(key)
        axis, grip = door @ np.array(part.joint.axis), door @ np.array(part.handle)
        poses = [(hinge + grip - 0.09 * rotation[:, 2], rotation), (hinge + grip, rotation)]
        left = (part.joint.on_from + 0.12 if on else 0.0) - self.world.joint(key)
        for share in (0.25, 0.5, 0.75, 1.0):
            swing = matrix_of_rotvec(axis * share * left)
            poses.append((hinge + swing @ grip, swing @ rotation))
        return poses
