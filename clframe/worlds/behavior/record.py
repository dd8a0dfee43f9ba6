"""What an episode leaves for BEHAVIOR's efficiency metrics (`clframe.metrics.behavior`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clframe.worlds.bddl import Literal
from clframe.worlds.behavior.facts import literals
from clframe.worlds.behavior.household import Household
from clframe.worlds.behavior.sampling import Instance
from clframe.worlds.behavior.state import ABSENT, Point, State
from clframe.worlds.behavior.verbs import act


class Recorder:
    """Collects one frame per primitive: literals, positions, hands.

    A primitive moves things along straight lines, so lengths of paths are exact with one frame
    each. Primitives differ in duration; the time between frames is given as their mean, so that
    simulated time is exact as well.
    """

    def __init__(self, household: Household) -> None:
        self.household = household
        self.states: list[frozenset[Literal]] = []
        self.positions: list[list[Point]] = []
        self.present: list[list[bool]] = []
        self.base: list[tuple[float, float]] = []
        self.hands: list[list[Point]] = []
        self.active: list[list[bool]] = []
        self.times: list[float] = []
        self._version = -1

    def add(self, state: State, holding: frozenset[Literal] | None = None) -> None:
        """Note a frame; what holds follows from the state where it is not given."""
        if holding is not None:
            self._literals = holding
        elif state.version != self._version:
            self._literals = literals(self.household, state)
        before = self.hands[-1] if self.hands else state.hand_positions
        self.states.append(self._literals)
        self.positions.append(state.position[:])
        self.present.append([relation != ABSENT for relation in state.relation])
        self.base.append(state.base)
        self.hands.append(state.hand_positions[:])
        # A hand is active while it holds something, and when it went to a thing without a walk.
        walked = len(self.base) > 1 and self.base[-2] != state.base
        self.active.append(
            [
                state.hands[hand] >= 0
                or (not walked and state.hand_positions[hand] != before[hand])
                for hand in (0, 1)
            ]
        )
        self.times.append(state.time)
        self._version = state.version

    def episode(self) -> dict[str, Any]:
        """The arguments of `clframe.metrics.behavior.Episode`.

        A thing that was cut stays where it was last; its halves are measured from there.
        """
        household = self.household
        frames = len(self.states)
        sides = ((0, "left"), (1, "right"))
        objects: dict[str, list[Point]] = {}
        halves: dict[str, str] = {}
        whole_of = {half: whole for whole, pair in household.halves.items() for half in pair}
        for slot, name in enumerate(household.names):
            path = [positions[slot] for positions in self.positions]
            there = [present[slot] for present in self.present]
            if not household.carried[slot] or not any(there):
                continue
            if not there[0]:  # a half has no place before the cut
                born = there.index(True)
                path[:born] = [path[born]] * born
                halves[name] = household.names[whole_of[slot]]
            objects[name] = path
        return {
            "states": self.states,
            "time_step": max(self.times[-1] - self.times[0], 1e-9) / frames,
            "objects": objects,
            "base": self.base,
            "hands": {side: [pair[hand] for pair in self.hands] for hand, side in sides},
            "hand_active": {side: [pair[hand] for pair in self.active] for hand, side in sides},
            "halves": halves,
        }


def replay(instance: Instance, steps: Sequence[tuple[int, int]]) -> Recorder:
    """Record the episode of a plan."""
    state = instance.start.copy()
    recorder = Recorder(instance.household)
    recorder.add(state)
    for verb, slot in steps:
        act(instance.household, state, verb, slot)
        recorder.add(state)
    return recorder
