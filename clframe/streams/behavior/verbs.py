"""The primitives by number and name, and the step that does one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any

from clframe.streams.behavior import handling, matter, moving
from clframe.streams.behavior.categories import Can
from clframe.streams.behavior.heat import pass_time
from clframe.streams.behavior.household import Household
from clframe.streams.behavior.moving import check_navigate_to, held, present
from clframe.streams.behavior.state import ABSENT, HELD, State

SPEED = 1.0
"""How fast the agent walks, in meters a second."""
REFUSED = 1.0
"""Seconds that an impossible primitive takes."""
WAIT = 10.0


class Verb(IntEnum):
    """What the agent can do with one thing."""

    NAVIGATE_TO = 0
    GRASP = 1
    RELEASE = 2
    PLACE_ON_TOP = 3
    PLACE_INSIDE = 4
    PLACE_UNDER = 5
    PLACE_NEXT_TO = 6
    OPEN = 7
    CLOSE = 8
    TOGGLE_ON = 9
    TOGGLE_OFF = 10
    SLICE = 11
    WIPE = 12
    SOAK = 13
    FILL = 14
    POUR_INTO = 15
    POUR_ON = 16
    EMPTY = 17
    DRY = 18
    ATTACH = 19
    DRAPE = 20
    OVERLAY = 21
    FOLD = 22
    UNFOLD = 23
    REPAIR = 24
    WAIT = 25


Check = Callable[[Household, State, int], str]
Effect = Callable[[Household, State, int], Any]


@dataclass(frozen=True, slots=True)
class Primitive:
    """What forbids a verb, what it does, and how many seconds it takes."""

    check: Check
    effect: Effect
    seconds: float


PRIMITIVES: tuple[Primitive, ...] = (
    Primitive(moving.check_navigate_to, moving.navigate_to, 0.0),
    Primitive(moving.check_grasp, moving.grasp, 2.0),
    Primitive(moving.check_release, moving.release, 1.0),
    Primitive(moving.check_place_on_top, moving.place_on_top, 2.0),
    Primitive(moving.check_place_inside, moving.place_inside, 2.0),
    Primitive(moving.check_place_under, moving.place_under, 3.0),
    Primitive(moving.check_place_next_to, moving.place_next_to, 2.0),
    Primitive(handling.check_open, handling.open_it, 2.0),
    Primitive(handling.check_close, handling.close, 2.0),
    Primitive(handling.check_toggle_on, handling.toggle_on, 1.0),
    Primitive(handling.check_toggle_off, handling.toggle_off, 1.0),
    Primitive(handling.check_slice, handling.slice_it, 5.0),
    Primitive(matter.check_wipe, matter.wipe, 10.0),
    Primitive(matter.check_soak, matter.soak, 5.0),
    Primitive(matter.check_fill, matter.fill, 5.0),
    Primitive(matter.check_pour_into, matter.pour_into, 3.0),
    Primitive(matter.check_pour_on, matter.pour_on, 3.0),
    Primitive(matter.check_empty, matter.empty, 3.0),
    Primitive(matter.check_dry, matter.dry, 10.0),
    Primitive(moving.check_attach, moving.attach, 10.0),
    Primitive(moving.check_cloth, moving.drape, 5.0),
    Primitive(moving.check_cloth, moving.overlay, 5.0),
    Primitive(handling.check_fold, handling.fold, 10.0),
    Primitive(handling.check_unfold, handling.unfold, 5.0),
    Primitive(handling.check_repair, handling.repair, 20.0),
    Primitive(handling.check_wait, handling.wait, WAIT),
)

_CHECKS = tuple(primitive.check for primitive in PRIMITIVES)


def act(household: Household, state: State, verb: int, slot: int) -> str:
    """Do a primitive, or say what forbids it; either takes time."""
    primitive = PRIMITIVES[verb]
    refusal = primitive.check(household, state, slot)
    if refusal:
        pass_time(household, state, REFUSED)
        return refusal
    result = primitive.effect(household, state, slot)
    seconds = result / SPEED if verb == 0 else primitive.seconds
    pass_time(household, state, seconds)
    return ""


class _Hands(IntFlag):
    """What the hands allow for, whatever a verb is done to."""

    HOLDING = 1
    CLOTH = 2
    FREE = 4
    SOAKS = 8
    CONTAINER = 16
    POURS = 32
    FULL = 64
    WIPES = 128
    CUTS = 256
    MENDS = 512
    DRIES = 1024


_TOOLS = (
    (_Hands.WIPES, Can.CLEANER | Can.PRESSES | Can.SANDS),
    (_Hands.CUTS, Can.SLICER),
    (_Hands.MENDS, Can.MENDS),
    (_Hands.DRIES, Can.DRIES_BY_AIR | Can.SOAKABLE),
)
_TAKES_UP = int(Can.SOAKABLE | Can.CLOTH | Can.CLEANER)
_NEEDED_HANDS = {
    Verb.GRASP: 0,
    Verb.RELEASE: _Hands.HOLDING,
    Verb.PLACE_ON_TOP: _Hands.HOLDING,
    Verb.PLACE_INSIDE: _Hands.HOLDING,
    Verb.PLACE_UNDER: _Hands.HOLDING,
    Verb.PLACE_NEXT_TO: _Hands.HOLDING,
    Verb.OPEN: _Hands.FREE,
    Verb.CLOSE: _Hands.FREE,
    Verb.TOGGLE_ON: _Hands.FREE,
    Verb.TOGGLE_OFF: _Hands.FREE,
    Verb.SLICE: _Hands.CUTS,
    Verb.WIPE: _Hands.WIPES,
    Verb.SOAK: _Hands.SOAKS,
    Verb.FILL: _Hands.CONTAINER,
    Verb.POUR_INTO: _Hands.POURS,
    Verb.POUR_ON: _Hands.POURS,
    Verb.EMPTY: _Hands.FULL,
    Verb.DRY: _Hands.DRIES,
    Verb.ATTACH: _Hands.HOLDING,
    Verb.DRAPE: _Hands.CLOTH,
    Verb.OVERLAY: _Hands.CLOTH,
    Verb.FOLD: _Hands.FREE,
    Verb.UNFOLD: _Hands.FREE,
    Verb.REPAIR: _Hands.MENDS,
}
_NEEDED_ABILITY = {
    Verb.PLACE_INSIDE: Can.CONTAINER,
    Verb.POUR_INTO: Can.CONTAINER,
    Verb.EMPTY: Can.CONTAINER | Can.TAP,
    Verb.OPEN: Can.OPENABLE,
    Verb.CLOSE: Can.OPENABLE,
    Verb.TOGGLE_ON: Can.TOGGLEABLE,
    Verb.TOGGLE_OFF: Can.TOGGLEABLE,
    Verb.FOLD: Can.CLOTH,
    Verb.UNFOLD: Can.CLOTH,
}
"""What a thing has to be able to, whatever its state."""
_PLACING: dict[int, Check] = {
    Verb.PLACE_ON_TOP: lambda household, state, slot: "",
    Verb.PLACE_INSIDE: moving.not_open,
    Verb.PLACE_UNDER: moving.not_standing,
    Verb.PLACE_NEXT_TO: moving.no_room_beside,
    Verb.ATTACH: moving.is_floor,
}
"""What these verbs ask for beside what all of them do: that a thing can be put there."""
_CARRIED = (Verb.GRASP, Verb.RELEASE, Verb.SLICE)
"""Done only to what can be carried."""


def _hands(household: Household, state: State) -> int:
    """What the hands allow for now."""
    left, right = state.hands
    found = int(_Hands.FREE) if left < 0 or right < 0 else 0
    thing = held(state)
    if thing < 0:
        return found
    can = household.can[thing]
    found |= _Hands.HOLDING
    if can & Can.CLOTH:
        found |= _Hands.CLOTH
    if can & _TAKES_UP:
        found |= _Hands.SOAKS
    if can & Can.CONTAINER:
        found |= _Hands.CONTAINER
    if matter.pourable(household, state, thing):
        found |= _Hands.POURS
    if state.contains[thing]:
        found |= _Hands.FULL
    both = (household.can[left] if left >= 0 else 0) | (household.can[right] if right >= 0 else 0)
    for tool, ability in _TOOLS:
        if both & ability:
            found |= tool
    return int(found)


def _candidates(household: Household, hands: int, offered: tuple[Verb, ...]) -> list[list[int]]:
    """For each slot, the offered verbs that hands and abilities do not rule out."""
    verbs = [
        verb
        for verb, needed in _NEEDED_HANDS.items()
        if needed & hands == needed and verb in offered
    ]
    found = []
    for slot, can in enumerate(household.can):
        fits = [
            verb for verb in verbs if verb not in _NEEDED_ABILITY or can & _NEEDED_ABILITY[verb]
        ]
        if not household.carried[slot]:
            fits = [verb for verb in fits if verb not in _CARRIED]
        found.append([int(verb) for verb in fits])
    return found


def possible(
    household: Household, state: State, offered: tuple[Verb, ...] = tuple(Verb)
) -> list[tuple[int, int]]:
    """All (verb, slot) pairs of the offered verbs that nothing forbids, in order of slots."""
    key = (offered, _hands(household, state))
    candidates = household.candidates.get(key)
    if candidates is None:
        candidates = household.candidates[key] = _candidates(household, key[1], offered)
    agent = household.agent
    found = [(int(Verb.WAIT), agent)] if Verb.WAIT in offered else []
    walks = Verb.NAVIGATE_TO in offered
    for slot, relation in enumerate(state.relation):
        if relation == ABSENT or slot == agent:
            continue
        if walks and not check_navigate_to(household, state, slot):
            found.append((0, slot))
        fits = candidates[slot]
        if not fits:
            continue
        # What is not in a hand has to be touched, whatever is done to it.
        if relation != HELD and present(household, state, slot):
            continue
        can_put: bool | None = None
        for verb in fits:
            asks = _PLACING.get(verb)
            if asks is None:
                if not _CHECKS[verb](household, state, slot):
                    found.append((verb, slot))
                continue
            if can_put is None:
                can_put = not moving.check_place_on_top(household, state, slot)
            if can_put and not asks(household, state, slot):
                found.append((verb, slot))
    return found
