"""Moving the hand: closed-loop way-points as generators of actions.

Every method that moves is a generator: it yields an action, the caller steps the world, and the
method looks at the world again. So a skill reads like a plan and still reacts to what happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.tabletop.expert.reach import Reach
from clframe.worlds.tabletop.gripper import HAND, MAX_OPENING, grip_for
from clframe.worlds.tabletop.poses import Matrix, Point, rotvec_of_matrix
from clframe.worlds.tabletop.world import MOVE, TURN, World

Action = NDArray[np.float64]
Actions = Iterator[Action]
UP: Point = np.array([0.0, 0.0, 1.0])
FAST, SLOW = 0.03, 0.010
"""Meters of one step, in the open and near things."""
_GENTLE, _STEEP = 3.5, 10.0
"""Meters of height for each meter of distance left, in the open and next to tall objects.

Gentle ways are easier to learn: a small error sideways asks for a small one upwards.
"""
_LOOSE = 0.004
"""Fingers that miss no more of their opening hold nothing."""
_CLEAR = 0.035
"""Room above what the hand passes over."""


class Dropped(Exception):
    """What was held has slipped out of the hand."""


class Motion:
    """Moves the hand of a world.

    Args:
        world: Whose hand; the caller steps it with each action that is yielded.
        rng: Chooses among what is equally good; None always takes the first.
    """

    def __init__(self, world: World, rng: np.random.Generator | None = None) -> None:
        self.world, self.rng = world, rng
        self.reach = Reach(world)
        self.steps = 0
        self.abandoned: list[tuple[int, int]] = []
        self.opening = MAX_OPENING
        self.held: str | None = None
        self._loose = 0

    def give_up(self, start: int) -> None:
        """Note that what was done from a step on was in vain."""
        self.abandoned.append((start, self.steps))

    @property
    def hand(self) -> Point:
        """Where the hand is."""
        return self.world.position(HAND)

    def action(self, position: Point, rotation: Matrix, speed: float) -> Action:
        """The action that takes the target towards a pose, at most ``speed`` meters at once."""
        aim, turned = self.world.aim
        way = position - aim
        length = float(np.sqrt(way @ way))
        if length > speed:
            way = way * (speed / length)
        turn = rotvec_of_matrix(rotation @ turned.T)
        angle = float(np.sqrt(turn @ turn))
        most = 0.10 if self.held else 0.20
        if angle > most:
            turn = turn * (most / angle)
        action = np.concatenate([way / MOVE, turn / TURN, [grip_for(self.opening)]])
        return np.asarray(np.clip(action, -1.0, 1.0))

    def _check_held(self) -> None:
        """Notice that the held thing is gone."""
        if self.held is None or self.world.touching(HAND, self.held):
            self._loose = 0
            return
        self._loose += 1
        if self._loose > 4:
            self._loose, self.held = 0, None
            raise Dropped

    def go(
        self,
        position: Point | Callable[[], Point],
        rotation: Matrix,
        *,
        speed: float = FAST,
        near: float = 0.006,
        steps: int = 80,
        until: Callable[[], bool] | None = None,
    ) -> Actions:
        """Move until the hand is there, or ``until`` says so, or time is up.

        Args:
            position: The target, or a function that returns it at each step.
            rotation: How to be turned.
            speed: Meters of one step.
            near: Distance at which the hand counts as there.
            steps: Maximum number of steps.
            until: Stops early.
        """
        for _ in range(steps):
            self._check_held()
            goal = position() if callable(position) else position
            if until is not None and until():
                return
            left = self.hand - goal
            turn = rotvec_of_matrix(rotation @ self.world.rotation(HAND).T)
            if left @ left < near * near and turn @ turn < 0.05**2:
                return
            yield self.action(goal, rotation, speed)

    def wait(self, steps: int) -> Actions:
        """Stay, with the fingers going to the opening that is set."""
        aim, rotation = self.world.aim
        for _ in range(steps):
            yield self.action(aim, rotation, FAST)

    def squeeze(self, name: str) -> Actions:
        """Close the fingers until both touch a thing, or stop; they then press by themselves."""
        self.opening = 0.0
        before = -1.0
        for _ in range(14):
            now = self.world.opening
            if self.world.between_fingers(name) or now < _LOOSE or abs(now - before) < 2e-3:
                return
            before = now
            yield from self.wait(1)

    def let_go(self, opening: float) -> Actions:
        """Open the fingers until they are off what they held, and no longer."""
        held, self.held = self.held, None
        self.opening = float(np.clip(opening, 0.0, MAX_OPENING))
        for _ in range(8):
            if self.world.opening > self.opening - _LOOSE:
                return
            yield from self.wait(1)
            if held is None or not self.world.touching(HAND, held):
                return

    def travel(
        self,
        position: Point | Callable[[], Point],
        rotation: Matrix,
        *,
        near: float = 0.010,
        steps: int = 160,
        until: Callable[[], bool] | None = None,
        closing: float = 0.0,
    ) -> Actions:
        """Rise, go across above everything in between, and sink steeply onto a point.

        The way follows from where the hand is and not from what it did before, so that it can be
        learned from single observations: the height aimed at grows with the distance left, and
        the hand moves across only as far as it has reached that height. From ``closing`` meters
        before the end on the fingers close, so that the hand does not stand still for them.
        """
        if self.held is None:
            yield from self._unwind(position() if callable(position) else position, rotation)
        opened = self.opening
        slope = self._slope(position() if callable(position) else position)
        for _ in range(steps):
            self._check_held()
            goal = position() if callable(position) else position
            if until is not None and until():
                return
            here = self.hand
            left = goal - here
            flat = float(np.hypot(left[0], left[1]))
            turn = rotvec_of_matrix(rotation @ self.world.rotation(HAND).T)
            angle = float(np.sqrt(turn @ turn))
            distance = float(np.sqrt(left @ left))
            if distance < near and angle < 0.05:
                return
            if closing:
                self.opening = 0.0 if distance < closing and angle < 0.05 else opened
            high = slope * max(0.0, flat - (0.012 if slope == _GENTLE else 0.006)) + 0.3 * max(
                0.0, angle - 0.05
            )
            if flat > 0.02:
                high = min(high, max(0.0, self._level(here, goal) - float(goal[2])))
            aim, turned = self.world.aim
            way = goal + high * UP - aim
            missing = way[2] - 0.02
            if missing > 0:
                way[:2] *= max(0.0, 1.0 - missing / 0.04)
            speed = float(np.clip(0.2 * distance, SLOW, FAST))
            # Turning low down would sweep things away.
            yield self.action(aim + way, turned if missing > 0.05 else rotation, speed)

    def _unwind(self, position: Point, rotation: Matrix) -> Actions:
        """Rise and turn back where an arm, from the turns it has made, would not get to a pose."""
        for pose in self.reach.way_home((position, rotation)):
            yield from self.go(*pose, near=0.03, steps=8)

    def slide(
        self,
        goal: Point,
        rotation: Matrix,
        *,
        near: float = 0.006,
        steps: int = 45,
        closing: float = 0.0,
    ) -> Actions:
        """Go to a point along the hand's own direction, staying back until it is in line.

        From ``closing`` meters before the end on the fingers close.
        """
        forward, opened = rotation[:, 2], self.opening
        for _ in range(steps):
            self._check_held()
            left = goal - self.hand
            along = float(left @ forward)
            beside = left - along * forward
            off = float(np.sqrt(beside @ beside))
            if left @ left < near * near:
                return
            if closing:
                self.opening = 0.0 if left @ left < closing * closing else opened
            back = min(0.09, 5.0 * max(0.0, off - 0.006))
            speed = float(np.clip(0.3 * abs(along), SLOW, FAST))
            yield self.action(goal - back * forward, rotation, speed)

    def _slope(self, goal: Point) -> float:
        """How steeply to sink onto a point: more so next to objects that reach up to the palm."""
        for name in (*self.world.plan.fixtures, *self.world.plan.objects):
            low, high = self.world.bounds(name)
            beside = (goal[:2] > low[:2] - 0.09) & (goal[:2] < high[:2] + 0.09)
            if name != self.held and beside.all() and high[2] > goal[2] + 0.04:
                return _STEEP
        return _GENTLE

    def hang(self) -> float:
        """How far the hand, with what it holds, reaches below its origin."""
        lowest = float(self.world.bounds(HAND)[0][2])
        if self.held is not None:
            lowest = min(lowest, float(self.world.bounds(self.held)[0][2]))
        return float(self.hand[2]) - lowest

    def _level(self, start: Point, end: Point) -> float:
        """The height at which nothing stands in the way from start to end."""
        along = start[:2] + np.linspace(0, 1, 12)[:, None] * (end - start)[:2]
        highest = 0.02
        for name in (*self.world.plan.fixtures, *self.world.plan.objects):
            if name == self.held:
                continue
            low, high = self.world.bounds(name)
            inside = (along > low[:2] - 0.10) & (along < high[:2] + 0.10)
            if inside.all(axis=1).any():
                highest = max(highest, float(high[2]))
        return highest + self.hang() + _CLEAR
