"""The primitives by number and name, and the step that does one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Any

from clframe.worlds.behavior import handling, matter, moving
from clframe.worlds.behavior.categories import Can
from clframe.worlds.behavior.heat import pass_time
from clframe.worlds.behavior.household import Household
from clframe.worlds.behavior.moving import held
from clframe.worlds.behavior.places import children, family, in_reach, shut_in
from clframe.worlds.behavior.state import ABSENT, HELD, State

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


Pair = tuple[int, int]
"""A verb and the slot it is done to."""
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
_PUTTING = (
    Verb.PLACE_ON_TOP,
    Verb.PLACE_INSIDE,
    Verb.PLACE_UNDER,
    Verb.PLACE_NEXT_TO,
    Verb.ATTACH,
)
"""What is held ends up there, so that it must not be part of what is held itself."""
_ASKS: dict[int, Check] = {
    Verb.PLACE_INSIDE: moving.not_open,
    Verb.PLACE_UNDER: moving.not_standing,
    Verb.OPEN: handling.is_open,
    Verb.CLOSE: handling.is_closed,
    Verb.TOGGLE_ON: handling.is_on,
    Verb.TOGGLE_OFF: handling.is_off,
}
"""What forbids these for reachable objects that are not held, besides hands and abilities."""
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


@dataclass(slots=True)
class _Fits:
    """Pairs of a verb with one slot that hands and abilities do not rule out.

    Attributes:
        held: Those to ask about while the thing is in a hand.
        sure: Possible whenever it can be touched and is not in a hand; likewise the following.
        asked: Possible if nothing that is asked forbids it.
        putting: As ``sure``, if the thing is not part of what the acting hand holds.
        asked_putting: As ``asked``, likewise.
        beside: The pair that needs room next to the object, likewise.
    """

    held: list[Pair] = field(default_factory=list)
    sure: list[Pair] = field(default_factory=list)
    asked: list[tuple[Pair, Check]] = field(default_factory=list)
    putting: list[Pair] = field(default_factory=list)
    asked_putting: list[tuple[Pair, Check]] = field(default_factory=list)
    beside: Pair | None = None

    def add(self, verb: Verb, slot: int, hands: int) -> None:
        """Take in a verb that hands and abilities allow for."""
        pair = (int(verb), slot)
        if verb not in _PUTTING:
            self.held.append(pair)
        if verb == Verb.PLACE_NEXT_TO:
            self.beside = pair
        elif verb in _PUTTING:
            if verb in _ASKS:
                self.asked_putting.append((pair, _ASKS[verb]))
            else:
                self.putting.append(pair)
        elif verb == Verb.GRASP:
            self.sure += [pair] if hands & _Hands.FREE else []
        else:
            self.asked.append((pair, _ASKS.get(verb, PRIMITIVES[verb].check)))


def _candidates(household: Household, hands: int, offered: tuple[Verb, ...]) -> list[_Fits]:
    """For each slot, the offered verbs that hands and abilities do not rule out."""
    found = []
    for slot, can in enumerate(household.can):
        fits = _Fits()
        for verb, needed in _NEEDED_HANDS.items():
            if (
                verb in offered
                and needed & hands == needed
                and (verb not in _NEEDED_ABILITY or can & _NEEDED_ABILITY[verb])
                and (household.carried[slot] or verb not in _CARRIED)
                and not (can & Can.SUBSTANCE and verb in _PUTTING)
                and not (household.floor[slot] and verb == Verb.ATTACH)
            ):
                fits.add(verb, slot, hands)
        found.append(fits)
    return found


def possible(
    household: Household, state: State, offered: tuple[Verb, ...] = tuple(Verb)
) -> list[Pair]:
    """All (verb, slot) pairs of the offered verbs that nothing forbids, in order of slots."""
    key = (offered, _hands(household, state))
    candidates = household.candidates.get(key)
    if candidates is None:
        candidates = household.candidates[key] = _candidates(household, key[1], offered)
    agent = household.agent
    found = [(int(Verb.WAIT), agent)] if Verb.WAIT in offered else []
    walks = Verb.NAVIGATE_TO in offered
    acting = held(state)
    below = children(state)
    in_hand = {part: thing for thing in state.hands if thing >= 0 for part in family(state, thing)}
    for slot, relation in enumerate(state.relation):
        if relation == ABSENT or slot == agent:
            continue
        if walks and slot not in in_hand:
            found.append((0, slot))
        fits: _Fits = candidates[slot]
        if relation == HELD:
            found += [pair for pair in fits.held if not _CHECKS[pair[0]](household, state, slot)]
        # What is not in a hand has to be touched, whatever is done to it.
        elif in_reach(household, state, slot) and shut_in(household, state, slot) < 0:
            found += fits.sure
            for pair, asks in fits.asked:
                if not asks(household, state, slot):
                    found.append(pair)
            if acting < 0 or in_hand.get(slot) == acting:
                continue
            found += fits.putting
            for pair, asks in fits.asked_putting:
                if not asks(household, state, slot):
                    found.append(pair)
            if fits.beside and not moving.no_room_beside(household, state, slot, below):
                found.append(fits.beside)
    return found
