"""Primitives that move the agent and the things it carries.

Every primitive is two functions of household, state and slot: one that says what forbids it (an
empty string if nothing does), and one that does it.
"""

from __future__ import annotations

from clframe.worlds.behavior.categories import Can
from clframe.worlds.behavior.heat import disturb
from clframe.worlds.behavior.household import Household
from clframe.worlds.behavior.places import (
    in_reach,
    is_part_of,
    move,
    shut_in,
    spot_beside,
    spot_inside,
    spot_on_top,
)
from clframe.worlds.behavior.state import (
    ABSENT,
    ATTACHED,
    DRAPED,
    HELD,
    INSIDE,
    ONTOP,
    OVERLAID,
    Point,
    State,
)

_STANDOFF = 0.6
TOO_FAR = "it is out of reach"
SHUT_IN = "it is in a closed container"
NO_HAND = "no hand is free"
NOTHING_HELD = "no hand holds anything"
NOT_THERE = "it does not exist"
IN_HAND = "it is in a hand"


def present(household: Household, state: State, slot: int) -> str:
    """What keeps the agent from touching a thing."""
    if state.relation[slot] == ABSENT:
        return NOT_THERE
    if not in_reach(household, state, slot):
        return TOO_FAR
    return SHUT_IN if shut_in(household, state, slot) >= 0 else ""


def free_hand(state: State) -> int:
    """A hand that holds nothing, the right one first, or -1."""
    left, right = state.hands
    if right < 0:
        return 1
    return 0 if left < 0 else -1


def held(state: State) -> int:
    """What the acting hand holds, or -1."""
    slot = state.hands[state.active]
    return slot if slot >= 0 else state.hands[1 - state.active]


def touch(state: State, slot: int, hand: int) -> None:
    """Bring a hand to a thing."""
    state.hand_positions[hand] = state.position[slot]


def check_navigate_to(household: Household, state: State, slot: int) -> str:
    """Anywhere but to itself, to what is carried and to what does not exist."""
    if slot == household.agent or state.relation[slot] == ABSENT:
        return NOT_THERE
    child = slot
    while child >= 0:
        if state.relation[child] == HELD:
            return IN_HAND
        child = state.parent[child]
    return ""


def navigate_to(household: Household, state: State, slot: int) -> float:
    """Walk to a thing; the result is how many meters that was."""
    x, y, _ = state.position[slot]
    floor = slot
    while state.parent[floor] >= 0:
        floor = state.parent[floor]
    area = household.areas[floor]
    center = area.center
    dx, dy = center[0] - x, center[1] - y
    length = (dx * dx + dy * dy) ** 0.5
    share = _STANDOFF / length if length > _STANDOFF else 0.0
    to = (x + dx * share, y + dy * share)
    went = (to[0] - state.base[0], to[1] - state.base[1])
    state.base = to
    if state.area != area.slot:
        state.area = area.slot
        state.parent[household.agent] = area.slot
        state.version += 1
    state.position[household.agent] = (to[0], to[1], 0.0)
    for hand, side in enumerate((-0.2, 0.2)):
        state.hand_positions[hand] = (to[0] + side, to[1], 1.0)
        if state.hands[hand] >= 0:
            move(state, state.hands[hand], state.hand_positions[hand])
    distance: float = (went[0] ** 2 + went[1] ** 2) ** 0.5
    return distance


def check_grasp(household: Household, state: State, slot: int) -> str:
    """A thing that can be carried, in reach, with a free hand; or one that the other hand holds."""
    if not household.carried[slot]:
        return "it cannot be carried"
    if state.relation[slot] == HELD:
        return "" if held(state) != slot else IN_HAND
    if free_hand(state) < 0:
        return NO_HAND
    return present(household, state, slot)


def grasp(household: Household, state: State, slot: int) -> None:
    """Take a thing with all that is on and in it; from then on its hand is the acting one."""
    state.version += 1
    if state.relation[slot] == HELD:
        state.active = state.hands.index(slot)
        return
    hand = free_hand(state)
    state.hands[hand] = slot
    state.active = hand
    touch(state, slot, hand)
    leave_place(state, slot)
    state.relation[slot] = HELD
    disturb(household, state, slot)


def leave_place(state: State, slot: int) -> None:
    """Undo what ties a thing to its place."""
    state.parent[slot] = -1
    state.under[slot] = state.leaning[slot] = -1
    if slot in state.leaning:
        state.leaning = [-1 if below == slot else below for below in state.leaning]
    if slot in state.under:
        state.under = [-1 if above == slot else above for above in state.under]
    if state.joints and state.relation[slot] == ATTACHED:
        state.joints = frozenset(pair for pair in state.joints if pair[0] != slot)


def put(
    household: Household, state: State, slot: int, parent: int, relation: int, spot: Point
) -> None:
    """Let go of a thing at a place."""
    hand = state.hands.index(slot)
    state.hands[hand] = -1
    move(state, slot, spot)
    state.hand_positions[hand] = spot
    state.parent[slot] = parent
    state.relation[slot] = relation
    state.version += 1
    disturb(household, state, slot)


def _check_place(household: Household, state: State, slot: int) -> str:
    thing = held(state)
    if thing < 0:
        return NOTHING_HELD
    if slot == household.agent or household.can[slot] & Can.SUBSTANCE:
        return "nothing can be put there"
    if is_part_of(state, slot, thing) or state.relation[slot] == HELD:
        return IN_HAND
    return present(household, state, slot)


def check_release(household: Household, state: State, slot: int) -> str:
    """Only what a hand holds can be let go."""
    return "" if slot in state.hands else "no hand holds it"


def release(household: Household, state: State, slot: int) -> None:
    """Put a held object on the floor next to the agent."""
    spot = spot_on_top(household, state, slot, state.area)
    put(household, state, slot, state.area, ONTOP, spot)


def place_on_top(household: Household, state: State, slot: int) -> None:
    """Put the held thing on top of another, or on the floor."""
    thing = held(state)
    put(household, state, thing, slot, ONTOP, spot_on_top(household, state, thing, slot))


def not_open(household: Household, state: State, slot: int) -> str:
    """What keeps a thing from being put inside."""
    if not household.can[slot] & Can.CONTAINER:
        return "it is no container"
    if household.can[slot] & Can.OPENABLE and not state.opened[slot]:
        return "it is closed"
    return ""


def check_place_inside(household: Household, state: State, slot: int) -> str:
    """The target must be a container, and open if it can be closed."""
    return not_open(household, state, slot) or _check_place(household, state, slot)


def place_inside(household: Household, state: State, slot: int) -> None:
    """Put the held thing into a container."""
    thing = held(state)
    put(household, state, thing, slot, INSIDE, spot_inside(household, state, thing, slot))


def floor_below(household: Household, state: State, slot: int) -> int:
    """The floor a thing stands on directly, or -1."""
    if household.fixed[slot]:
        return household.area_of.get(slot, -1)
    parent = state.parent[slot]
    return parent if parent >= 0 and household.floor[parent] else -1


def not_standing(household: Household, state: State, slot: int) -> str:
    """What keeps a thing from being put beneath another."""
    if household.floor[slot] or floor_below(household, state, slot) < 0:
        return "it does not stand on the floor"
    return ""


def check_place_under(household: Household, state: State, slot: int) -> str:
    """The target must stand on the floor."""
    return not_standing(household, state, slot) or _check_place(household, state, slot)


def place_under(household: Household, state: State, slot: int) -> None:
    """Put the held thing on the floor beneath another."""
    thing = held(state)
    x, y, _ = state.position[slot]
    lying = state.under.count(slot)
    spot = (x + 0.12 * (lying % 5 - 2), y + 0.12 * (lying // 5 - 1), 0.0)
    put(household, state, thing, floor_below(household, state, slot), ONTOP, spot)
    state.under[thing] = slot


def no_room_beside(
    household: Household, state: State, slot: int, below: dict[int, list[int]] | None = None
) -> str:
    """Return what keeps an object from being put next to another, or None."""
    if household.floor[slot]:
        return "there is nothing next to it"
    if not household.fixed[slot] and state.relation[slot] not in (ONTOP, INSIDE, OVERLAID):
        return "nothing can stand next to it"
    if spot_beside(household, state, held(state), slot, below) is None:
        return "there is no room next to it"
    return ""


def check_place_next_to(household: Household, state: State, slot: int) -> str:
    """Require that the target stands or lies somewhere with room next to it."""
    return _check_place(household, state, slot) or no_room_beside(household, state, slot)


def place_next_to(household: Household, state: State, slot: int) -> None:
    """Put the held object next to another, on or in the same support."""
    thing = held(state)
    spot = spot_beside(household, state, thing, slot)
    assert spot is not None  # checked before
    if household.fixed[slot]:
        put(household, state, thing, household.area_of[slot], ONTOP, spot)
    else:
        relation = INSIDE if state.relation[slot] == INSIDE else ONTOP
        put(household, state, thing, state.parent[slot], relation, spot)


def is_floor(household: Household, state: State, slot: int) -> str:
    """What keeps a thing from being fastened to another."""
    return "it is a floor" if household.floor[slot] else ""


def check_attach(household: Household, state: State, slot: int) -> str:
    """Anything in reach that is not a floor."""
    return is_floor(household, state, slot) or _check_place(household, state, slot)


def attach(household: Household, state: State, slot: int) -> None:
    """Fasten the held thing to another."""
    thing = held(state)
    x, y, z = state.position[slot]
    spot = (x, y, z + household.half[slot][2] / 2)
    put(household, state, thing, slot, ATTACHED, spot)
    state.joints |= {(thing, slot)}


def check_cloth(household: Household, state: State, slot: int) -> str:
    """The held thing must be a cloth."""
    thing = held(state)
    if thing >= 0 and not household.can[thing] & Can.CLOTH:
        return "what is held is no cloth"
    return _check_place(household, state, slot)


def drape(household: Household, state: State, slot: int) -> None:
    """Hang the held cloth over another thing."""
    thing = held(state)
    put(household, state, thing, slot, DRAPED, state.position[slot])


def overlay(household: Household, state: State, slot: int) -> None:
    """Spread the held cloth over another thing."""
    thing = held(state)
    put(household, state, thing, slot, OVERLAID, spot_on_top(household, state, thing, slot))


check_place_on_top = _check_place
