"""Which of a stream's slots and choices the things and primitives of a household take.

All activities of a stream share one list of choices, ``verb * slots + slot``. So that what was
learned of one helps with another, slots are dealt out by what things are to the goal: places where
something has to go, then things that have to change, then all others, floors, and last the agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from clframe.errors import SettingError
from clframe.worlds.bddl import Problem
from clframe.worlds.behavior.household import Household
from clframe.worlds.behavior.verbs import Verb

Primitives = Literal["six", "all"]
SIX = (
    Verb.NAVIGATE_TO,
    Verb.GRASP,
    Verb.PLACE_ON_TOP,
    Verb.PLACE_INSIDE,
    Verb.OPEN,
    Verb.CLOSE,
)
"""The primitives of Srivastava et al., "BEHAVIOR" (2021), section 6."""
VERBS: dict[Primitives, tuple[Verb, ...]] = {"six": SIX, "all": tuple(Verb)}


def slot_order(household: Household) -> list[int]:
    """The household's slots in the order in which they take the stream's.

    >>> from clframe.worlds.behavior.corpus import load_activity
    >>> from clframe.worlds.behavior.sampling import sample
    >>> household = sample(load_activity("b100", "laying_tile_floors")).household
    >>> [household.names[slot] for slot in slot_order(household)][:2]
    ['floor.n.01_2', 'tile.n.01_1']
    """
    goal = household.problem.goal
    targets = {term for atom in goal.atoms for term in atom[2:]}
    changed = {atom[1] for atom in goal.atoms}

    def rank(slot: int) -> tuple[int, int]:
        name = household.names[slot]
        if slot == household.agent:
            return (4, slot)
        if name in targets and name not in changed:
            return (0, slot)
        if name in changed or name in targets:
            return (1, slot)
        return (3 if household.floor[slot] else 2, slot)

    return sorted(range(len(household.names)), key=rank)


class Layout:
    """The slots and choices of a stream, for one household.

    Args:
        household: The household.
        slots: Of the stream.
        verbs: That the stream offers.
    """

    def __init__(self, household: Household, slots: int, verbs: Sequence[Verb]) -> None:
        self.order = slot_order(household)
        require_slots(household.problem, len(self.order), slots)
        self.slots, self.verbs = slots, tuple(verbs)
        self.place = {slot: place for place, slot in enumerate(self.order)}
        self.row = {int(verb): row for row, verb in enumerate(verbs)}

    def number(self, verb: int, slot: int) -> int:
        """The choice that is a verb with a slot of the household.

        Raises:
            SettingError: The stream does not offer the verb.
        """
        if verb not in self.row:
            word = Verb(verb).name.lower()
            raise SettingError(
                f"the planner's way needs '{word}', which is not among the stream's "
                f"{len(self.verbs)} primitives: set stream.primitives=all"
            )
        return self.row[verb] * self.slots + self.place[slot]

    def choice(self, number: int) -> tuple[int, int]:
        """The verb and the household's slot of a choice; slot -1 where there is no thing."""
        row, place = divmod(number, self.slots)
        if not 0 <= row < len(self.verbs) or place >= len(self.order):
            return 0, -1
        return int(self.verbs[row]), self.order[place]


def require_slots(problem: Problem, things: int, slots: int) -> None:
    """Refuse an activity with more things than slots."""
    if things > slots:
        raise SettingError(
            f"activity '{problem.name}' has {things} things, but stream.slots={slots}; give it at "
            "least as many"
        )
