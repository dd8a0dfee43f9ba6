"""A moment of an activity as one vector, from which a perceptron can choose.

It begins with the mask of choices, followed by the agent's numbers and a row of numbers per slot.
Nothing in it names a category: a row says what a thing can do, how it is now, and what the goal
still wants of it. All numbers are of about unit size.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from clframe.bddl.option_tree import Signed
from clframe.streams.behavior.categories import Can
from clframe.streams.behavior.household import Household
from clframe.streams.behavior.layout import Layout
from clframe.streams.behavior.moving import held
from clframe.streams.behavior.places import REACH, shut_in
from clframe.streams.behavior.state import INSIDE, State
from clframe.streams.behavior.tracker import GoalTracker
from clframe.streams.behavior.verbs import possible

ABILITIES = (
    Can.CONTAINER,
    Can.OPENABLE,
    Can.TOGGLEABLE,
    Can.SOAKABLE,
    Can.CLOTH,
    Can.CLEANER | Can.PRESSES | Can.SANDS,
    Can.SLICER,
    Can.HEATS_INSIDE | Can.HEATS_ON_TOP | Can.HEATS_ITSELF,
    Can.COOLS,
    Can.WASHES | Can.DRIES | Can.DRIES_BY_AIR,
    Can.TAP,
    Can.SUBSTANCE,
)
FLAGS = ("opened", "toggled", "folded", "unfolded", "sliced", "broken")
STATIC = len(ABILITIES) + 3
DYNAMIC = 4 + len(FLAGS) + 9
GROUPS = {"inside": 0, "ontop": 1, "onfloor": 1}
"""Kinds of literals that put a thing somewhere; other relations and states follow."""
RELATION, STATE_TRUE, STATE_FALSE, DONE = 2, 3, 4, 5
GOAL = 6 + 3 + 3
"""As first term by kind and whether done, as second term, as the target of what is held."""
COLUMNS = STATIC + DYNAMIC + GOAL
AGENT = 4
_KEPT = 20_000
_DEGREES = 100.0


def size(slots: int, verbs: int) -> int:
    """Numbers of a vector."""
    return verbs * slots + AGENT + slots * COLUMNS


class Features:
    """Makes the vectors of an activity.

    Args:
        household: Of any of its instances; they differ in nothing that is used here.
        layout: Its slots and choices in the stream.
        tracker: Scores its states.
    """

    def __init__(self, household: Household, layout: Layout, tracker: GoalTracker) -> None:
        self.household, self.layout, self.tracker = household, layout, tracker
        self.count = len(household.names)
        self.n_choices = layout.slots * len(layout.verbs)
        self.order = np.array(layout.order)
        self._offset = {verb: row * layout.slots for verb, row in layout.row.items()}
        self._place = [layout.place[slot] for slot in range(self.count)]
        self._static = np.array([self._abilities(slot) for slot in layout.order], np.float32)
        self._goals: dict[tuple[int, int], NDArray[np.float32]] = {}

    def _abilities(self, slot: int) -> list[bool]:
        household = self.household
        can = household.can[slot]
        own = [household.carried[slot], household.floor[slot], slot == household.agent]
        return own + [bool(can & ability) for ability in ABILITIES]

    def vector(
        self, household: Household, state: State, truth: int, score: float
    ) -> NDArray[np.float32]:
        """The vector of an instance's state, whose truth and score are known already."""
        layout, count = self.layout, self.count
        vector = np.zeros(size(layout.slots, len(layout.verbs)), np.float32)
        offset, place = self._offset, self._place
        vector[
            [offset[verb] + place[slot] for verb, slot in possible(household, state, layout.verbs)]
        ] = 1.0
        first = self.n_choices
        left, right = state.hands
        vector[first : first + AGENT] = (left >= 0, right >= 0, state.active, score)
        rows = vector[first + AGENT :].reshape(layout.slots, COLUMNS)[:count]
        rows[:, :STATIC] = self._static
        rows[:, STATIC : STATIC + DYNAMIC] = self._states(state)
        rows[:, STATIC + DYNAMIC :] = self._goal(truth, held(state))
        return vector

    def _states(self, state: State) -> NDArray[np.float32]:
        """How each thing is now, in the stream's order."""
        household = self.household
        masks = household.masks
        loose, stuck = masks[Can.LOOSE] | masks[Can.LIQUID], masks[Can.STUCK] | masks[Can.MARK]
        acting = held(state)
        x0, y0 = state.base
        shut = [0] * self.count
        for slot, relation in enumerate(state.relation):
            if relation == INSIDE and shut_in(household, state, slot) >= 0:
                shut[slot] = 1
        covered = state.covered
        columns = [
            [relation > 0 for relation in state.relation],
            [relation == INSIDE for relation in state.relation],
            [slot in state.hands for slot in range(self.count)],
            [slot == acting for slot in range(self.count)],
            *(getattr(state, name) for name in FLAGS),
            shut,
            [above >= 0 for above in state.under],
            [bits & loose != 0 for bits in covered],
            [bits & stuck != 0 for bits in covered],
            [bits != 0 for bits in state.soaked],
            [bits != 0 for bits in state.contains],
            [degrees / _DEGREES for degrees in state.temperature],
            [degrees / _DEGREES for degrees in state.hottest],
            [
                min(((x - x0) ** 2 + (y - y0) ** 2) ** 0.5 / (2 * REACH), 2.0)
                for x, y, _ in state.position
            ],
        ]
        table: NDArray[np.float32] = np.array(columns, np.float32)[:, self.order].T
        return table

    def _goal(self, truth: int, acting: int) -> NDArray[np.float32]:
        """What the nearest option of the goal still wants, in the stream's order."""
        found = self._goals.get((truth, acting))
        if found is None:
            if len(self._goals) >= _KEPT:
                self._goals.clear()
            atoms = self.tracker.true_atoms(truth)
            option = self.tracker.goal.nearest_option(atoms, set()) or ()
            found = self._wanted(option, set(atoms), acting)[self.order]
            self._goals[truth, acting] = found
        return found

    def _wanted(
        self, option: Iterable[Signed], holding: set[tuple[str, ...]], acting: int
    ) -> NDArray[np.float32]:
        table = np.zeros((self.count, GOAL), np.float32)
        for literal, wanted in dict.fromkeys(option):
            slots = self.household.literal_slots(literal)
            first, second = slots[0], slots[1] if len(slots) > 1 else -1
            if (literal in holding) == wanted:
                table[first, DONE] = 1.0
                continue
            kind = GROUPS.get(literal[0], RELATION)
            if second < 0 or not wanted:
                table[first, STATE_TRUE if wanted else STATE_FALSE] = 1.0
                continue
            table[first, kind] = 1.0
            table[second, 6 + kind] = 1.0
            if first == acting:
                table[second, 9 + kind] = 1.0
        return table
