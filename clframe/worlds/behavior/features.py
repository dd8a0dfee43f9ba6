"""A moment of an activity as one vector, from which a perceptron can choose.

It begins with the mask of choices, followed by the agent's numbers and a row of numbers per slot.
Nothing in it names a category: a row says what a thing can do, how it is now, and what the goal
still wants of it. All numbers are of about unit size.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.bddl.option_tree import Signed
from clframe.worlds.behavior.categories import Can
from clframe.worlds.behavior.household import Household
from clframe.worlds.behavior.layout import Layout
from clframe.worlds.behavior.moving import held
from clframe.worlds.behavior.places import REACH, shut_in
from clframe.worlds.behavior.state import INSIDE, State
from clframe.worlds.behavior.tracker import GoalTracker
from clframe.worlds.behavior.verbs import Verb, possible

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
_LASTING = (
    "relation",
    *FLAGS,
    "under",
    "covered",
    "soaked",
    "contains",
    "temperature",
    "hottest",
)
"""Lists of a state that few steps change."""
_SHUT = 4 + len(FLAGS)
DYNAMIC = _SHUT + 9
GROUPS = {"inside": 0, "ontop": 1, "onfloor": 1}
"""Kinds of literals that put a thing somewhere; other relations and states follow."""
RELATION, STATE_TRUE, STATE_FALSE, DONE = 2, 3, 4, 5
GOAL = 6 + 3 + 3
"""As first term by kind and whether done, as second term, as the target of what is held."""
COLUMNS = STATIC + DYNAMIC + GOAL
AGENT = 4
_KEPT = 20_000
_DEGREES = 100.0
_FAR = 2 * REACH


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
        self._blank = np.zeros(size(layout.slots, len(layout.verbs)), np.float32)
        static = [self._abilities(slot) for slot in layout.order]
        self._rows(self._blank)[:, :STATIC] = np.array(static, np.float32)
        self._table = np.zeros((self.count, DYNAMIC), np.float32)
        """How each thing is, in the household's order; `_seen` is what it was made of."""
        self._seen: dict[str, list[Any]] = {}
        self._goals: dict[tuple[int, int], NDArray[np.float32]] = {}

    def _abilities(self, slot: int) -> list[bool]:
        household = self.household
        can = household.can[slot]
        own = [household.carried[slot], household.floor[slot], slot == household.agent]
        return own + [bool(can & ability) for ability in ABILITIES]

    def _rows(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """The rows of a vector that belong to things."""
        rows = vector[self.n_choices + AGENT :].reshape(self.layout.slots, COLUMNS)
        return rows[: self.count]

    def vector(
        self,
        household: Household,
        state: State,
        truth: int,
        score: float,
        offered: tuple[Verb, ...],
    ) -> NDArray[np.float32]:
        """The vector of an instance's state.

        Args:
            household: The instance's.
            state: Its state.
            truth: Which atoms of the goal hold.
            score: Q.
            offered: Those of the stream's verbs that there are now.
        """
        vector = self._blank.copy()
        offset, place = self._offset, self._place
        vector[
            [offset[verb] + place[slot] for verb, slot in possible(household, state, offered)]
        ] = 1.0
        first = self.n_choices
        left, right = state.hands
        vector[first : first + AGENT] = (left >= 0, right >= 0, state.active, score)
        rows = self._rows(vector)
        self._update(state)
        rows[:, STATIC : STATIC + DYNAMIC] = self._table[self.order]
        rows[:, STATIC + DYNAMIC :] = self._goal(truth, held(state))
        return vector

    def _update(self, state: State) -> None:
        """Bring the table of how each thing is now up to date."""
        table = self._table
        for name in _LASTING:
            values = getattr(state, name)
            if values != self._seen.get(name):
                self._seen[name] = values[:]
                self._write(name, values)
        table[:, 2:4] = 0.0
        for slot in state.hands:
            if slot >= 0:
                table[slot, 2] = 1.0
        if (acting := held(state)) >= 0:
            table[acting, 3] = 1.0
        table[:, _SHUT] = 0.0
        for slot, relation in enumerate(state.relation):
            if relation == INSIDE and shut_in(self.household, state, slot) >= 0:
                table[slot, _SHUT] = 1.0
        x0, y0 = state.base
        away = [(x - x0, y - y0) for x, y, _ in state.position]
        table[:, -1] = [(dx * dx + dy * dy) ** 0.5 / _FAR for dx, dy in away]
        np.minimum(table[:, -1], 2.0, out=table[:, -1])

    def _write(self, name: str, values: list[Any]) -> None:
        """Write the columns of one of the state's lists."""
        table = self._table
        if name == "relation":
            table[:, 0] = [relation > 0 for relation in values]
            table[:, 1] = [relation == INSIDE for relation in values]
        elif name in FLAGS:
            table[:, 4 + FLAGS.index(name)] = values
        elif name == "under":
            table[:, _SHUT + 1] = [above >= 0 for above in values]
        elif name == "covered":
            masks = self.household.masks
            loose = masks[Can.LOOSE] | masks[Can.LIQUID]
            stuck = masks[Can.STUCK] | masks[Can.MARK]
            table[:, _SHUT + 2] = [bits & loose != 0 for bits in values]
            table[:, _SHUT + 3] = [bits & stuck != 0 for bits in values]
        elif name in ("soaked", "contains"):
            table[:, _SHUT + (4 if name == "soaked" else 5)] = [bits != 0 for bits in values]
        else:
            column = _SHUT + (6 if name == "temperature" else 7)
            table[:, column] = [degrees / _DEGREES for degrees in values]

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
