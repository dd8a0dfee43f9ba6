"""Primitives that change the states of things: doors, switches, blades, cloths."""

from __future__ import annotations

from clframe.worlds.behavior.categories import Can
from clframe.worlds.behavior.heat import add_substance, disturb, vanish
from clframe.worlds.behavior.household import Household
from clframe.worlds.behavior.moving import IN_HAND, NO_HAND, free_hand, present, touch
from clframe.worlds.behavior.places import family
from clframe.worlds.behavior.state import HELD, State

_NO_SWITCH = "it has no switch"


def _check_hand(household: Household, state: State, slot: int, ability: Can, refusal: str) -> str:
    if not household.can[slot] & ability:
        return refusal
    if free_hand(state) < 0:
        return NO_HAND
    return present(household, state, slot)


def _use_hand(state: State, slot: int) -> None:
    touch(state, slot, free_hand(state))
    state.version += 1


def is_open(household: Household, state: State, slot: int) -> str:
    """What keeps a thing that opens from being opened."""
    return "it is open" if state.opened[slot] else ""


def check_open(household: Household, state: State, slot: int) -> str:
    """A closed thing that can be opened, with a free hand."""
    return is_open(household, state, slot) or _check_hand(
        household, state, slot, Can.OPENABLE, "it cannot be opened"
    )


def open_it(household: Household, state: State, slot: int) -> None:
    """Open a thing."""
    _use_hand(state, slot)
    state.opened[slot] = 1
    disturb(household, state, slot)


def is_closed(household: Household, state: State, slot: int) -> str:
    """What keeps a thing that opens from being closed."""
    return "" if state.opened[slot] else "it is closed"


def check_close(household: Household, state: State, slot: int) -> str:
    """An open thing that can be closed, with a free hand."""
    return is_closed(household, state, slot) or _check_hand(
        household, state, slot, Can.OPENABLE, "it cannot be closed"
    )


def close(household: Household, state: State, slot: int) -> None:
    """Close a thing."""
    _use_hand(state, slot)
    state.opened[slot] = 0
    disturb(household, state, slot)


def is_on(household: Household, state: State, slot: int) -> str:
    """What keeps a thing with a switch from being switched on."""
    if state.toggled[slot]:
        return "it is on"
    cycle = household.can[slot] & (Can.WASHES | Can.DRIES)
    if cycle and household.can[slot] & Can.OPENABLE and state.opened[slot]:
        return "it is open"
    return ""


def check_toggle_on(household: Household, state: State, slot: int) -> str:
    """What has a switch and is off; a washing machine or dryer must be closed."""
    return is_on(household, state, slot) or _check_hand(
        household, state, slot, Can.TOGGLEABLE, _NO_SWITCH
    )


def toggle_on(household: Household, state: State, slot: int) -> None:
    """Switch a thing on; a machine that washes or dries does so with all that is in it."""
    _use_hand(state, slot)
    state.toggled[slot] = 1
    disturb(household, state, slot)
    can = household.can[slot]
    if not can & (Can.WASHES | Can.DRIES):
        return
    kept = household.masks[Can.MARK]
    for member in family(state, slot)[1:]:
        if can & Can.WASHES:
            state.covered[member] &= kept
            if household.can[member] & (Can.SOAKABLE | Can.CLOTH):
                state.soaked[member] |= household.water
        else:
            state.soaked[member] = 0
            state.covered[member] &= ~household.water


def is_off(household: Household, state: State, slot: int) -> str:
    """What keeps a thing with a switch from being switched off."""
    return "" if state.toggled[slot] else "it is off"


def check_toggle_off(household: Household, state: State, slot: int) -> str:
    """What has a switch and is on."""
    return is_off(household, state, slot) or _check_hand(
        household, state, slot, Can.TOGGLEABLE, _NO_SWITCH
    )


def toggle_off(household: Household, state: State, slot: int) -> None:
    """Switch a thing off."""
    _use_hand(state, slot)
    state.toggled[slot] = 0
    disturb(household, state, slot)


def holds(household: Household, state: State, ability: int) -> int:
    """What a hand holds that has an ability, the acting hand's first, or -1."""
    for hand in (state.active, 1 - state.active):
        slot = state.hands[hand]
        if slot >= 0 and household.can[slot] & ability:
            return slot
    return -1


def check_slice(household: Household, state: State, slot: int) -> str:
    """What can be cut and lies somewhere, with a blade in hand."""
    if not household.carried[slot] or state.sliced[slot]:
        return "it cannot be cut"
    if not household.old_words and slot not in household.halves and slot not in household.diced:
        return "it cannot be cut"
    if household.old_words and household.can[slot] & _NOT_FOOD:
        return "it cannot be cut"
    if state.relation[slot] == HELD:
        return IN_HAND
    if holds(household, state, Can.SLICER) < 0:
        return "no hand holds a blade"
    return present(household, state, slot)


_NOT_FOOD = int(
    Can.CONTAINER
    | Can.OPENABLE
    | Can.TOGGLEABLE
    | Can.CLEANER
    | Can.SLICER
    | Can.CLOTH
    | Can.FIXTURE
)


def slice_it(household: Household, state: State, slot: int) -> None:
    """Cut a thing: it is sliced (BEHAVIOR-100), or gives way to its halves or to diced matter."""
    touch(state, slot, state.hands.index(holds(household, state, Can.SLICER)))
    state.version += 1
    if household.old_words:
        state.sliced[slot] = 1
        return
    parent, relation = state.parent[slot], state.relation[slot]
    halves = household.halves.get(slot, [])
    for half in halves:
        state.relation[half], state.parent[half] = relation, parent
        state.position[half] = state.position[slot]
        for name in ("temperature", "hottest", "covered", "soaked"):
            values = getattr(state, name)
            values[half] = values[slot]
        disturb(household, state, half)
    if not halves:
        add_substance(household, state, parent, household.diced[slot])
        disturb(household, state, parent)
    vanish(state, slot)


def check_fold(household: Household, state: State, slot: int) -> str:
    """A cloth that is not folded and not in a hand."""
    if state.folded[slot]:
        return "it is folded"
    if state.relation[slot] == HELD:
        return IN_HAND
    return _check_hand(household, state, slot, Can.CLOTH, "it is no cloth")


def fold(household: Household, state: State, slot: int) -> None:
    """Fold a cloth."""
    _use_hand(state, slot)
    state.folded[slot], state.unfolded[slot] = 1, 0


def check_unfold(household: Household, state: State, slot: int) -> str:
    """A cloth that is not spread out and not in a hand."""
    if state.unfolded[slot]:
        return "it is unfolded"
    if state.relation[slot] == HELD:
        return IN_HAND
    return _check_hand(household, state, slot, Can.CLOTH, "it is no cloth")


def unfold(household: Household, state: State, slot: int) -> None:
    """Spread a cloth out."""
    _use_hand(state, slot)
    state.folded[slot], state.unfolded[slot] = 0, 1


def check_repair(household: Household, state: State, slot: int) -> str:
    """A broken thing, with a tool that mends in hand."""
    if not state.broken[slot]:
        return "it is not broken"
    if holds(household, state, Can.MENDS) < 0:
        return "no hand holds a tool that mends"
    return present(household, state, slot)


def repair(household: Household, state: State, slot: int) -> None:
    """Make a broken thing whole."""
    touch(state, slot, state.hands.index(holds(household, state, Can.MENDS)))
    state.broken[slot] = 0
    state.version += 1


def check_wait(household: Household, state: State, slot: int) -> str:
    """Waiting is the agent's own; its argument is the agent."""
    return "" if slot == household.agent else "waiting takes the agent as its argument"


def wait(household: Household, state: State, slot: int) -> None:
    """Do nothing for a while."""
