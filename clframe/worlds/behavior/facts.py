"""Predicates of a state, by their words, and the set of literals that hold."""

from __future__ import annotations

from collections.abc import Callable

from clframe.worlds.bddl import Literal
from clframe.worlds.behavior import heat
from clframe.worlds.behavior.categories import Can
from clframe.worlds.behavior.household import DUST, STAIN, Household
from clframe.worlds.behavior.places import next_to, touching
from clframe.worlds.behavior.state import (
    ABSENT,
    DRAPED,
    FIXED,
    INSIDE,
    ONTOP,
    OVERLAID,
    State,
)

Fact = Callable[[State], bool]


def inside(state: State, slot: int, container: int) -> bool:
    """Whether a thing is in a container, also on or in other things that are."""
    parents, relations = state.parent, state.relation
    while (parent := parents[slot]) >= 0:
        if parent == container and relations[slot] == INSIDE:
            return True
        slot = parent
    return False


def on_top(state: State, slot: int, support: int) -> bool:
    """Whether a thing rests on another."""
    if state.parent[slot] == support:
        return state.relation[slot] in (FIXED, ONTOP, OVERLAID)
    return state.leaning[slot] == support


def exists(household: Household, state: State, slot: int) -> bool:
    """Whether a thing is somewhere; a substance, whether there is any outside of its source."""
    bit = household.bit.get(household.names[slot], 0)
    if not bit:
        return state.relation[slot] != ABSENT
    for store in (state.contains, state.covered, state.soaked):
        if any(matter & bit for matter in store):
            return True
    return False


_FLAGS = {
    "open": "opened",
    "toggled_on": "toggled",
    "folded": "folded",
    "unfolded": "unfolded",
    "sliced": "sliced",
    "broken": "broken",
}
_MATTER = {
    "covered": "covered",
    "contains": "contains",
    "filled": "filled",
    "saturated": "soaked",
    "dusty": "covered",
    "stained": "covered",
    "soaked": "soaked",
}
_RELATIONS = {"draped": DRAPED, "overlaid": OVERLAID}
UNARY = (*_FLAGS, "dusty", "stained", "soaked", "cooked", "burnt", "frozen", "hot", "on_fire")


def fact(household: Household, literal: Literal) -> Fact:
    """A function that says whether a ground atom holds in a state."""
    predicate = literal[0]
    slots = household.literal_slots(literal)
    first = slots[0]
    second = slots[1] if len(slots) > 1 else -1
    if predicate in _FLAGS:
        name = _FLAGS[predicate]
        return lambda state: bool(getattr(state, name)[first])
    if predicate in _MATTER:
        name = _MATTER[predicate]
        bit = _bit(household, predicate, second)
        return lambda state: bool(getattr(state, name)[first] & bit)
    if predicate == "onfloor" or predicate == "ontop":
        return lambda state: on_top(state, first, second)
    if predicate in _RELATIONS:
        kind = _RELATIONS[predicate]
        return lambda state: state.parent[first] == second and state.relation[first] == kind
    table: dict[str, Fact] = {
        "inside": lambda state: inside(state, first, second),
        "under": lambda state: state.under[first] == second,
        "nextto": lambda state: next_to(household, state, first, second),
        "touching": lambda state: touching(household, state, first, second),
        "attached": lambda state: (first, second) in state.joints,
        "grasped": lambda state: second in state.hands,
        "insource": lambda state: True,
        "real": lambda state: exists(household, state, first),
        "future": lambda state: not exists(household, state, first),
        "cooked": lambda state: _cooked(household, state, first),
        "burnt": lambda state: state.hottest[first] >= heat.BURNT,
        "frozen": lambda state: state.temperature[first] <= heat.FROZEN,
        "hot": lambda state: state.temperature[first] >= heat.HOT,
        "on_fire": lambda state: state.temperature[first] >= heat.ON_FIRE,
    }
    return table[predicate]


def _cooked(household: Household, state: State, slot: int) -> bool:
    return state.hottest[slot] >= heat.COOKED


def _bit(household: Household, predicate: str, second: int) -> int:
    if predicate == "soaked":
        return household.water
    if second < 0:
        return household.bit[DUST if predicate == "dusty" else STAIN]
    return household.bit.get(household.names[second], 0)


def literals(household: Household, state: State) -> frozenset[Literal]:
    """All literals that hold, in the words of the activity's domain."""
    names = household.names
    found: set[Literal] = set()
    floor_word = "onfloor" if household.old_words else "ontop"
    things = [slot for slot in range(len(names)) if state.relation[slot] != ABSENT]
    for slot in things:
        name = names[slot]
        parent, relation = state.parent[slot], state.relation[slot]
        if parent >= 0 and relation in (FIXED, ONTOP, OVERLAID):
            found.add((floor_word if household.floor[parent] else "ontop", name, names[parent]))
        if state.leaning[slot] >= 0:
            below = state.leaning[slot]
            found.add((floor_word if household.floor[below] else "ontop", name, names[below]))
        if parent >= 0 and relation in (DRAPED, OVERLAID):
            found.add(("draped" if relation == DRAPED else "overlaid", name, names[parent]))
        child = slot
        while (holder := state.parent[child]) >= 0:
            if state.relation[child] == INSIDE:
                found.add(("inside", name, names[holder]))
            child = holder
        if state.under[slot] >= 0:
            found.add(("under", name, names[state.under[slot]]))
        if not household.can[slot] & Can.SUBSTANCE and slot != household.agent:
            _states(household, state, slot, found)
    found.update(("attached", names[first], names[second]) for first, second in state.joints)
    _neighbors(household, state, things, found)
    if not household.old_words:
        for slot in range(len(names)):
            found.add(("real" if exists(household, state, slot) else "future", names[slot]))
        found.update(
            ("insource", source, substance) for source, substance in household.things.sources
        )
        held = [slot for slot in state.hands if slot >= 0]
        found.update(("grasped", names[household.agent], names[slot]) for slot in held)
    return frozenset(found)


def _states(household: Household, state: State, slot: int, found: set[Literal]) -> None:
    name = household.names[slot]
    for word, flags in _FLAGS.items():
        if getattr(state, flags)[slot]:
            found.add((word, name))
    if state.hottest[slot] >= heat.COOKED:
        found.add(("cooked", name))
    if state.hottest[slot] >= heat.BURNT:
        found.add(("burnt", name))
    degrees = state.temperature[slot]
    if degrees <= heat.FROZEN:
        found.add(("frozen", name))
    if degrees >= heat.HOT and not household.old_words:
        found.add(("hot", name))
    if degrees >= heat.ON_FIRE and not household.old_words:
        found.add(("on_fire", name))
    if household.old_words:
        for word in ("dusty", "stained", "soaked"):
            if getattr(state, _MATTER[word])[slot] & _bit(household, word, -1):
                found.add((word, name))
        return
    for word in ("covered", "contains", "filled", "saturated"):
        matter = getattr(state, _MATTER[word])[slot]
        for substance, bit in household.bit.items() if matter else ():
            if matter & bit and substance in household.index:
                found.add((word, name, substance))


def _neighbors(household: Household, state: State, things: list[int], found: set[Literal]) -> None:
    names = household.names
    solid = [slot for slot in things if not household.floor[slot] and slot != household.agent]
    for place, first in enumerate(solid):
        for second in solid[place + 1 :]:
            if next_to(household, state, first, second):
                found.add(("nextto", names[first], names[second]))
                found.add(("nextto", names[second], names[first]))
            if touching(household, state, first, second):
                found.add(("touching", names[first], names[second]))
                found.add(("touching", names[second], names[first]))
        floor = state.parent[first]
        if floor >= 0 and household.floor[floor]:
            found.add(("touching", names[first], names[floor]))
            found.add(("touching", names[floor], names[first]))
