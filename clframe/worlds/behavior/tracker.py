"""Q and success of states, at the price of a few comparisons a step."""

from __future__ import annotations

from clframe.worlds.bddl import Literal
from clframe.worlds.behavior.facts import fact
from clframe.worlds.behavior.household import Household
from clframe.worlds.behavior.state import INSIDE, State


class GoalTracker:
    """Scores states of one household.

    Only atoms of the goal decide its score. Their truth is a whole number, one bit each, under
    which the exact score of `clframe.worlds.bddl` is remembered.

    Args:
        household: The household.
        scores: Known scores, shared by instances of one activity; None starts empty.
    """

    def __init__(
        self, household: Household, scores: dict[int, tuple[float, bool]] | None = None
    ) -> None:
        self.goal = household.problem.goal
        self.atoms: tuple[Literal, ...] = tuple(sorted(self.goal.atoms))
        self._facts = [
            (1 << place, fact(household, atom))
            for place, atom in enumerate(self.atoms)
            if atom[0] != "inside"
        ]
        self._inside: dict[int, dict[int, int]] = {}
        """Thing -> container -> the bit of the atom that has it inside; goals have many of them."""
        for place, atom in enumerate(self.atoms):
            if atom[0] == "inside":
                thing, container = household.literal_slots(atom)
                self._inside.setdefault(thing, {})[container] = 1 << place
        self._scores = {} if scores is None else scores

    def truth(self, state: State) -> int:
        """Which atoms of the goal hold, as bits in the order of ``atoms``."""
        found = 0
        for bit, holds in self._facts:
            if holds(state):
                found |= bit
        parents, relations = state.parent, state.relation
        for slot, bits in self._inside.items():
            while (parent := parents[slot]) >= 0:
                if relations[slot] == INSIDE:
                    found |= bits.get(parent, 0)
                slot = parent
        return found

    def true_atoms(self, truth: int) -> list[Literal]:
        """The atoms of the goal whose bits are set."""
        return [atom for place, atom in enumerate(self.atoms) if truth >> place & 1]

    def score(self, truth: int) -> tuple[float, bool]:
        """Q, and whether the goal holds."""
        found = self._scores.get(truth)
        if found is None:
            atoms = self.true_atoms(truth)
            found = self.goal.score(atoms), self.goal.satisfied(atoms)
            self._scores[truth] = found
        return found
