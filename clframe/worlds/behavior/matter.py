"""Primitives that move substances: soak, fill, pour, wipe."""

from __future__ import annotations

from clframe.worlds.behavior.categories import Can
from clframe.worlds.behavior.handling import holds
from clframe.worlds.behavior.heat import disturb
from clframe.worlds.behavior.household import Household
from clframe.worlds.behavior.moving import IN_HAND, NOTHING_HELD, held, present, touch
from clframe.worlds.behavior.state import HELD, State


def offers(household: Household, state: State, slot: int) -> int:
    """Substances that can be taken from a thing: from its tap or nozzle, or out of its inside."""
    running = household.yields[slot]
    if running and household.can[slot] & Can.TOGGLEABLE and not state.toggled[slot]:
        running = 0
    return running | state.contains[slot]


def pourable(household: Household, state: State, slot: int) -> int:
    """Substances that a held thing pours; what lies on a board or plate slides off."""
    on_it = state.covered[slot] & (household.masks[Can.LIQUID] | household.masks[Can.LOOSE])
    return offers(household, state, slot) | on_it


def _wet(household: Household, state: State, slot: int) -> bool:
    return bool(state.soaked[slot] or state.covered[slot] & household.masks[Can.LIQUID])


def check_soak(household: Household, state: State, slot: int) -> str:
    """The held thing takes up liquid, and the target offers some."""
    thing = held(state)
    if thing < 0:
        return NOTHING_HELD
    if not household.can[thing] & (Can.SOAKABLE | Can.CLOTH | Can.CLEANER):
        return "what is held takes up no liquid"
    if state.relation[slot] == HELD:
        return IN_HAND
    if not offers(household, state, slot):
        return "no liquid comes out of it"
    return present(household, state, slot)


def soak(household: Household, state: State, slot: int) -> None:
    """Hold the held thing under or into a liquid; that also rinses off what is loose."""
    thing = held(state)
    touch(state, slot, state.hands.index(thing))
    state.soaked[thing] |= offers(household, state, slot)
    state.covered[thing] &= ~household.masks[Can.LOOSE]
    state.version += 1


def check_fill(household: Household, state: State, slot: int) -> str:
    """The held thing is a container, and the target offers something."""
    thing = held(state)
    if thing < 0:
        return NOTHING_HELD
    if not household.can[thing] & Can.CONTAINER:
        return "what is held is no container"
    if state.relation[slot] == HELD:
        return IN_HAND
    if not offers(household, state, slot):
        return "nothing comes out of it"
    return present(household, state, slot)


def fill(household: Household, state: State, slot: int) -> None:
    """Fill the held container from a tap or another container, which stays full enough."""
    thing = held(state)
    touch(state, slot, state.hands.index(thing))
    matter = offers(household, state, slot)
    state.contains[thing] |= matter
    state.filled[thing] |= matter
    state.version += 1
    disturb(household, state, thing)


def _check_pour(household: Household, state: State, slot: int) -> str:
    thing = held(state)
    if thing < 0:
        return NOTHING_HELD
    if slot == household.agent or household.can[slot] & Can.SUBSTANCE:
        return "nothing can be poured there"
    if slot == thing:
        return IN_HAND
    if not pourable(household, state, thing):
        return "what is held has nothing to pour"
    return present(household, state, slot)


def check_pour_into(household: Household, state: State, slot: int) -> str:
    """The target is a container, open if it can be closed, and the held thing has something."""
    if not household.can[slot] & Can.CONTAINER:
        return "it is no container"
    if household.can[slot] & Can.OPENABLE and not state.opened[slot]:
        return "it is closed"
    return _check_pour(household, state, slot)


def pour_into(household: Household, state: State, slot: int) -> None:
    """Pour from the held thing into a container; what is held keeps the rest."""
    thing = held(state)
    touch(state, slot, state.hands.index(thing))
    matter = pourable(household, state, thing)
    state.contains[slot] |= matter
    state.filled[slot] |= matter
    state.version += 1
    disturb(household, state, slot)


def pour_on(household: Household, state: State, slot: int) -> None:
    """Pour, sprinkle or spread from the held thing onto another, which soaks it up if it can."""
    thing = held(state)
    touch(state, slot, state.hands.index(thing))
    matter = pourable(household, state, thing)
    state.covered[slot] |= matter
    if household.can[slot] & Can.SOAKABLE:
        state.soaked[slot] |= matter
    state.version += 1
    disturb(household, state, slot)


def check_empty(household: Household, state: State, slot: int) -> str:
    """The held thing contains something, and the target is a container or has a drain."""
    thing = held(state)
    if thing < 0 or not state.contains[thing]:
        return "what is held contains nothing"
    if not household.can[slot] & (Can.CONTAINER | Can.TAP):
        return "nothing can be emptied into it"
    return _check_pour(household, state, slot)


def empty(household: Household, state: State, slot: int) -> None:
    """Empty the held container into another, or down a drain."""
    thing = held(state)
    touch(state, slot, state.hands.index(thing))
    if not household.can[slot] & Can.TAP:
        state.contains[slot] |= state.contains[thing]
        state.filled[slot] |= state.filled[thing]
    state.contains[thing] = state.filled[thing] = 0
    state.version += 1


def removable(household: Household, state: State, tool: int) -> int:
    """Substances that a tool takes off a thing."""
    can, masks = household.can[tool], household.masks
    matter = 0
    if can & Can.CLEANER:
        matter = masks[Can.LOOSE] | masks[Can.LIQUID]
        if _wet(household, state, tool):
            matter |= masks[Can.STUCK]
    if can & (Can.PRESSES | Can.SANDS):
        matter |= masks[Can.MARK]
    return matter


def check_wipe(household: Household, state: State, slot: int) -> str:
    """A cleaning tool is in hand that takes off something of what covers the thing."""
    tool = holds(household, state, Can.CLEANER | Can.PRESSES | Can.SANDS)
    if tool < 0:
        return "no hand holds a cleaning tool"
    if slot == tool:
        return IN_HAND
    covering = state.covered[slot]
    if not covering:
        return "it is clean"
    if not covering & removable(household, state, tool):
        return "the tool that is held does not take off what covers it"
    return present(household, state, slot)


def wipe(household: Household, state: State, slot: int) -> None:
    """Take off with the held tool what it removes."""
    tool = holds(household, state, Can.CLEANER | Can.PRESSES | Can.SANDS)
    touch(state, slot, state.hands.index(tool))
    state.covered[slot] &= ~removable(household, state, tool)
    state.version += 1


def check_dry(household: Household, state: State, slot: int) -> str:
    """A wet thing, with a hair dryer or a dry towel in hand."""
    if not state.soaked[slot] and not state.covered[slot] & household.water:
        return "it is dry"
    tool = holds(household, state, Can.DRIES_BY_AIR | Can.SOAKABLE)
    if tool < 0 or tool == slot or state.soaked[tool]:
        return "no hand holds something that dries"
    return present(household, state, slot)


def dry(household: Household, state: State, slot: int) -> None:
    """Dry a thing; a towel takes up its water."""
    tool = holds(household, state, Can.DRIES_BY_AIR | Can.SOAKABLE)
    touch(state, slot, state.hands.index(tool))
    if household.can[tool] & Can.SOAKABLE:
        state.soaked[tool] |= state.soaked[slot] | state.covered[slot] & household.water
    state.soaked[slot] = 0
    state.covered[slot] &= ~household.water
    state.version += 1


check_pour_on = _check_pour
