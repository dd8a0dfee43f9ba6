"""A scripted expert: reads the goal, plans the order, and does it with closed-loop skills."""

from __future__ import annotations

from functools import partial

import numpy as np

from clframe.worlds.bddl import Literal
from clframe.worlds.tabletop.expert.motion import SLOW, UP, Action, Actions, Dropped
from clframe.worlds.tabletop.expert.parts import Parts
from clframe.worlds.tabletop.expert.plan import ordered_goals
from clframe.worlds.tabletop.gripper import pointing_down

__all__ = ["Action", "Expert"]

_ROUNDS = 4


class Expert(Parts):
    """Yields the actions that reach a world's goal.

    Use: ``for action in Expert(world).run(): world.step(action)``. The generator ends when the
    goal holds, or after several rounds without it; then ``failed`` lists what does not hold.
    ``abandoned`` lists from which step to which an attempt was made in vain.
    """

    failed: tuple[Literal, ...] = ()

    def run(self) -> Actions:
        """Do what the goal asks for, checking and trying again."""
        for action in self._rounds():
            self.steps += 1
            yield action

    def retreat(self, steps: int) -> Actions:
        """Leave against the hand's direction for some steps, with the fingers as they are."""
        rotation = self.world.aim[1]
        goal = self.hand - 2 * SLOW * (steps + 1) * rotation[:, 2]
        for _ in range(steps):
            yield self.action(goal, rotation, 2 * SLOW)

    def _rounds(self) -> Actions:
        for _ in range(_ROUNDS):
            for goal in ordered_goals(self.world):
                start = self.steps
                try:
                    yield from self._achieve(goal)
                except Dropped:
                    self.give_up(start)
                    break  # check again what remains to be done
                if not self.world.holds(goal):
                    self.give_up(start)
            self.failed = tuple(g for g in ordered_goals(self.world))
            if not self.failed:
                return
            yield from self._withdraw()

    def _achieve(self, goal: Literal) -> Actions:
        world = self.world
        if world.holds(goal):
            return
        predicate = goal[0]
        if predicate in ("open", "turnon", "close", "turnoff"):
            yield from self.operate(world.part_of(goal), predicate in ("open", "turnon"))
            return
        name, place = goal[1], goal[2]
        region = world.plan.regions.get(place)
        if region is not None and region.ranges and _is_flat(self, name):
            yield from self._drag(name, self.spot_for(goal).point)
            return
        n_placed = sum(
            world.holds((predicate, other, place)) for other in world.plan.objects if other != name
        )
        # One thing goes to the middle; where more are to come, each gets a spot of its own.
        several = sum(1 for g in world.problem.goal.atoms if len(g) == 3 and g[2] == place) > 1
        spot = self.spot_for(goal, n_placed + 1 if several else 0)
        yield from self.grasp(
            name, spot.lying or spot.entry[2] < 0.5, partial(self.putting, spot, name)
        )
        if self.held is None:
            return
        yield from self.put(self.spot_for(goal, n_placed + 1 if several else 0))

    def _withdraw(self) -> Actions:
        """Let go and rise before another round."""
        yield from self.release(self.world.aim[1])
        yield from self.go(self.hand + 0.12 * UP, self.world.aim[1], near=0.02, steps=15)

    def _drag(self, name: str, goal: np.ndarray) -> Actions:
        """Drag a plate with closed fingers against the inside of its rim."""
        world = self.world
        grip = world.plan.objects[name].grip
        assert grip is not None
        start = world.position(name)
        way = (goal - start) * [1, 1, 0]
        direction = way / max(float(np.linalg.norm(way)), 1e-6)
        rotation = pointing_down(float(np.arctan2(direction[1], direction[0])) - np.pi / 2)
        self.opening = 0.0
        inside = start + direction * (grip.reach - 0.028) + 0.024 * UP
        yield from self.travel(inside, rotation, near=0.006)

        def lead() -> np.ndarray:
            left = goal - world.position(name)
            return np.asarray(self.hand * [1, 1, 0] + left * [1, 1, 0] + [0, 0, inside[2]])

        def arrived() -> bool:
            here = world.position(name)
            left, off = (goal - here)[:2], (self.hand - here)[:2]
            lost = np.sqrt(off @ off) > grip.reach + 0.03
            return bool(left @ left < 0.012**2 or lost)

        yield from self.go(lead, rotation, speed=SLOW * 1.2, near=0.001, steps=80, until=arrived)
        yield from self.release(rotation, opening=0.0)


def _is_flat(expert: Expert, name: str) -> bool:
    """Whether a thing is so low that it is dragged rather than lifted."""
    asset = expert.world.plan.objects[name]
    return asset.height < 0.025 and asset.grip is not None and asset.grip.kind == "rim"
