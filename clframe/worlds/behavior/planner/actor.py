"""Errands: short runs of primitives that planning is made of."""

from __future__ import annotations

from collections.abc import Callable

from clframe.worlds.behavior.categories import Can
from clframe.worlds.behavior.household import Household
from clframe.worlds.behavior.moving import free_hand, held
from clframe.worlds.behavior.places import in_reach, is_part_of, shut_in
from clframe.worlds.behavior.state import ABSENT, HELD, State
from clframe.worlds.behavior.verbs import Verb, act

_LONGEST = 400
"""Most primitives of one errand."""
_WAITS = 40


class Stuck(Exception):
    """An errand cannot be run; the message says why."""


class Actor:
    """Runs errands on a copy of a state and notes the primitives.

    Args:
        household: The household.
        state: Where to start; it is not changed.
    """

    def __init__(self, household: Household, state: State) -> None:
        self.household = household
        self.state = state.copy()
        self.steps: list[tuple[int, int]] = []

    def do(self, verb: Verb, slot: int) -> None:
        """Do one primitive."""
        if len(self.steps) >= _LONGEST:
            raise Stuck("it takes too many steps")
        refusal = act(self.household, self.state, int(verb), slot)
        if refusal:
            name = self.household.names[slot]
            raise Stuck(f"{verb.name.lower()} {name} is refused: {refusal}")
        self.steps.append((int(verb), slot))

    def need(self, slots: list[int], what: str) -> list[int]:
        """The slots of those that exist; stuck without any."""
        found = [slot for slot in slots if self.state.relation[slot] != ABSENT]
        if not found:
            raise Stuck(f"there is {what}")
        return found

    def able(self, ability: int) -> list[int]:
        """Existing things that have one of some abilities, held ones first."""
        found = [
            slot
            for slot, can in enumerate(self.household.can)
            if can & ability and self.state.relation[slot] != ABSENT
        ]
        return sorted(found, key=lambda slot: slot not in self.state.hands)

    def go(self, slot: int) -> None:
        """Walk to a thing unless it is in reach."""
        if not in_reach(self.household, self.state, slot):
            self.do(Verb.NAVIGATE_TO, slot)

    def access(self, slot: int) -> None:
        """Open every closed container around a thing."""
        while (around := shut_in(self.household, self.state, slot)) >= 0:
            self.open(around)

    def reach(self, slot: int) -> None:
        """Make a thing touchable."""
        if self.state.relation[slot] == ABSENT:
            raise Stuck(f"{self.household.names[slot]} does not exist")
        self.access(slot)
        self.go(slot)

    def need_hand(self, keep: int = -1) -> None:
        """Free a hand, letting go of something other than ``keep``."""
        if free_hand(self.state) < 0:
            hands = [slot for slot in self.state.hands if slot != keep]
            self.do(Verb.RELEASE, hands[0])

    def open(self, slot: int, keep: int = -1) -> None:
        """Open a thing that can be closed; nothing to do for others."""
        if self.state.opened[slot] or not self.household.can[slot] & Can.OPENABLE:
            return
        self.access(slot)
        self.need_hand(keep)
        self.go(slot)
        self.do(Verb.OPEN, slot)

    def close(self, slot: int) -> None:
        """Close a thing, if it is open."""
        if not self.state.opened[slot]:
            return
        self.access(slot)
        self.need_hand()
        self.go(slot)
        self.do(Verb.CLOSE, slot)

    def switch(self, slot: int, on: bool, keep: int = -1) -> None:
        """Switch a thing on or off, if it is not so."""
        if bool(self.state.toggled[slot]) == on:
            return
        self.reach(slot)
        self.need_hand(keep)
        self.do(Verb.TOGGLE_ON if on else Verb.TOGGLE_OFF, slot)

    def pick(self, slot: int, keep: int = -1) -> None:
        """Have a thing in the acting hand."""
        if slot in self.state.hands:
            if held(self.state) != slot:
                self.do(Verb.GRASP, slot)
            return
        if not self.household.carried[slot]:
            raise Stuck(f"{self.household.names[slot]} cannot be carried")
        self.reach(slot)
        self.need_hand(keep)
        self.do(Verb.GRASP, slot)

    def stand(self, slot: int) -> None:
        """Let go of a thing, or of what it is in or on, if a hand holds that."""
        while slot >= 0:
            if self.state.relation[slot] == HELD:
                self.do(Verb.RELEASE, slot)
                return
            slot = self.state.parent[slot]

    def put(self, thing: int, verb: Verb, target: int) -> None:
        """Carry a thing to a target and put it there."""
        if is_part_of(self.state, target, thing):
            raise Stuck(f"{self.household.names[target]} is on or in {self.household.names[thing]}")
        self.stand(target)
        if verb == Verb.PLACE_INSIDE:
            self.open(target)
        self.access(target)
        self.pick(thing)
        self.go(target)
        self.do(verb, target)

    def wait_until(self, done: Callable[[State], bool]) -> None:
        """Wait for something to happen."""
        for _ in range(_WAITS):
            if done(self.state):
                return
            self.do(Verb.WAIT, self.household.agent)
        if not done(self.state):
            raise Stuck("waiting does not bring it about")
