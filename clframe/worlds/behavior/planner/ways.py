"""Ways to bring about one literal of a goal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from clframe.worlds.bddl import Literal
from clframe.worlds.behavior import heat
from clframe.worlds.behavior.categories import Can
from clframe.worlds.behavior.facts import fact
from clframe.worlds.behavior.household import DUST, STAIN, Household
from clframe.worlds.behavior.planner import making, substances
from clframe.worlds.behavior.planner.actor import Actor, Stuck
from clframe.worlds.behavior.state import HELD
from clframe.worlds.behavior.verbs import Verb

Way = Callable[[Actor], None]

_PLACING = {
    "inside": Verb.PLACE_INSIDE,
    "ontop": Verb.PLACE_ON_TOP,
    "onfloor": Verb.PLACE_ON_TOP,
    "under": Verb.PLACE_UNDER,
    "nextto": Verb.PLACE_NEXT_TO,
    "touching": Verb.PLACE_NEXT_TO,
    "attached": Verb.ATTACH,
    "draped": Verb.DRAPE,
    "overlaid": Verb.OVERLAY,
}
_ORDER = {
    "real": 0,
    "future": 0,
    "sliced": 0,
    "broken": 0,
    "dusty": 1,
    "stained": 1,
    "cooked": 2,
    "contains": 2,
    "filled": 2,
    "saturated": 3,
    "soaked": 3,
    "folded": 3,
    "unfolded": 3,
    "covered": 3,
    "nextto": 5,
    "touching": 5,
    "hot": 6,
    "frozen": 6,
    "on_fire": 6,
    "toggled_on": 7,
    "open": 8,
}


def rank(literal: Literal, wanted: bool) -> int:
    """What to see to first: what things are, then where they are, then doors and switches."""
    if literal[0] == "covered" and not wanted:
        return 1
    return _ORDER.get(literal[0], 4)


def ways(household: Household, literal: Literal, wanted: bool) -> list[Way]:
    """Errands that may make a literal true, or false if it is not wanted."""
    predicate = literal[0]
    slots = household.literal_slots(literal)
    first, second = slots[0], slots[-1]
    if predicate in _PLACING:
        return _place(predicate, first, second) if wanted else _displace(first, second)
    if predicate in ("open", "toggled_on"):
        return [lambda actor: _door_or_switch(actor, predicate, first, wanted)]
    if predicate in ("folded", "unfolded"):
        verb = Verb.FOLD if (predicate == "folded") == wanted else Verb.UNFOLD
        return [lambda actor: _handle(actor, verb, first)]
    if predicate in ("cooked", "hot", "frozen", "on_fire", "burnt"):
        return _temperature(household, literal, first, wanted)
    if predicate == "real" and wanted:
        return [lambda actor: _make(actor, first)]
    if predicate == "real" or (predicate == "sliced" and wanted):
        return [lambda actor: making.cut(actor, first)]
    if predicate == "broken" and not wanted:
        return [lambda actor: _repair(actor, first)]
    if predicate in ("dusty", "stained", "soaked"):
        bit = household.water
        if predicate != "soaked":
            bit = household.bit[DUST if predicate == "dusty" else STAIN]
        return _matter("saturated" if predicate == "soaked" else "covered", first, bit, wanted)
    if predicate in ("covered", "contains", "filled", "saturated"):
        bit = household.bit.get(literal[2], 0)
        if wanted:
            return [lambda actor: _supply(actor, predicate, first, second, bit)]
        return _matter(predicate, first, bit, wanted)
    return []


def _make(actor: Actor, slot: int) -> None:
    bit = actor.household.bit.get(actor.household.names[slot], 0)
    if bit:
        making.make_substance(actor, bit)
    else:
        making.make_thing(actor, slot)


def _place(predicate: str, first: int, second: int) -> list[Way]:
    verb = _PLACING[predicate]
    found: list[Way] = [lambda actor: actor.put(first, verb, second)]
    if predicate in ("inside", "ontop", "onfloor"):
        found.append(lambda actor: _carry_holder(actor, first, verb, second))
    if predicate in ("nextto", "touching"):
        found.append(lambda actor: actor.put(second, verb, first))
    if predicate == "touching":
        found.append(lambda actor: actor.put(first, Verb.PLACE_ON_TOP, second))
        found.append(lambda actor: actor.put(second, Verb.PLACE_ON_TOP, first))
    return found


def _carry_holder(actor: Actor, first: int, verb: Verb, second: int) -> None:
    """Bring the plate instead of the apple on it."""
    holder = actor.state.parent[first]
    if holder < 0 or not actor.household.carried[holder] or verb != Verb.PLACE_INSIDE:
        raise Stuck("it is not on anything that can be carried")
    actor.put(holder, verb, second)


def _displace(first: int, second: int) -> list[Way]:
    def away(actor: Actor, slot: int, place: int) -> None:
        household = actor.household
        actor.pick(slot)
        floors = [floor for floor in household.areas if floor != place]
        others = [other for other in household.area_of if other != place]
        near = [floor for floor in floors if floor == actor.state.area]
        for target in (*near, *others, *floors):
            actor.put(slot, Verb.PLACE_ON_TOP, target)
            return
        raise Stuck("there is no other place")

    return [
        lambda actor: away(actor, first, second),
        lambda actor: away(actor, second, first),
    ]


def _door_or_switch(actor: Actor, predicate: str, slot: int, wanted: bool) -> None:
    if predicate == "toggled_on":
        cycle = actor.household.can[slot] & (Can.WASHES | Can.DRIES)
        if wanted and cycle:
            actor.close(slot)
        actor.switch(slot, wanted)
    elif wanted:
        actor.open(slot)
    else:
        actor.close(slot)


def _handle(actor: Actor, verb: Verb, slot: int) -> None:
    actor.stand(slot)
    actor.reach(slot)
    actor.need_hand()
    actor.do(verb, slot)


def _repair(actor: Actor, slot: int) -> None:
    tools = [tool for tool in actor.able(Can.MENDS) if actor.household.carried[tool]]
    if not tools:
        raise Stuck("there is no tool that mends")
    actor.pick(tools[0])
    actor.reach(slot)
    actor.do(Verb.REPAIR, slot)


def _temperature(household: Household, literal: Literal, slot: int, wanted: bool) -> list[Way]:
    holds = fact(household, literal)
    predicate = literal[0]
    strong = predicate in ("on_fire", "burnt")
    if predicate == "frozen" and wanted:
        return [
            lambda actor: making.cool_down(actor, _holder(actor, slot), holds),
            lambda actor: making.cool_down(actor, slot, holds),
        ]
    if wanted:
        return [
            lambda actor: _heat_holder(actor, slot, holds),
            lambda actor: making.heat_up(actor, slot, holds, strong),
        ]
    if predicate in ("cooked", "burnt"):
        return []

    def adjust(actor: Actor) -> None:
        around = heat.surroundings(household, actor.state, slot)[0]
        reverts = around > heat.FROZEN if predicate == "frozen" else around < heat.HOT
        if not reverts:
            actor.pick(slot)
        actor.wait_until(lambda state: not holds(state))
        if actor.state.relation[slot] == HELD:
            actor.do(Verb.RELEASE, slot)

    return [adjust]


def _heat_holder(actor: Actor, slot: int, holds: Callable[..., bool]) -> None:
    """Heat the pan with what is in it."""
    making.heat_up(actor, _holder(actor, slot), holds)


def _holder(actor: Actor, slot: int) -> int:
    """What a thing is on or in, if that can be carried and lets heat through."""
    holder = actor.state.parent[slot]
    if holder < 0 or not actor.household.carried[holder]:
        raise Stuck("it is on or in nothing that can be carried")
    if actor.household.can[holder] & Can.OPENABLE and not actor.state.opened[holder]:
        raise Stuck("what it is in is closed")
    return holder


def _supply(actor: Actor, predicate: str, first: int, second: int, bit: int) -> None:
    """Put a substance where it is needed, making it first if there is none."""
    if not bit:
        raise Stuck(f"{actor.household.names[second]} is no substance")
    if not substances.holders(actor, bit):
        pot = first
        if predicate == "covered" and actor.household.can[first] & Can.CONTAINER:
            pot = next(iter(substances.vessels(actor, first)), -1)
        making.make_substance(actor, bit, pot)
        if fact(actor.household, (predicate, *_names(actor, first, second)))(actor.state):
            return
    if predicate == "covered":
        substances.cover(actor, first, bit)
    elif predicate == "saturated":
        if actor.household.carried[first]:
            substances.soak(actor, first, bit)
        else:
            substances.cover(actor, first, bit)
    else:
        substances.fill(actor, first, bit)


def _names(actor: Actor, *slots: int) -> list[str]:
    return [actor.household.names[slot] for slot in slots]


def _matter(predicate: str, slot: int, bit: int, wanted: bool) -> list[Way]:
    if wanted and predicate == "saturated":
        return [
            lambda actor: substances.soak(actor, slot, bit),
            lambda actor: substances.cover(actor, slot, bit),
        ]
    if wanted:
        return [lambda actor: substances.cover(actor, slot, bit)]
    if predicate == "covered":
        return [
            lambda actor: substances.wipe(actor, slot, bit),
            lambda actor: substances.wash(actor, slot, Can.WASHES),
            lambda actor: substances.soak(actor, slot, actor.household.water),
            lambda actor: substances.dry(actor, slot),
        ]
    if predicate == "saturated":
        return [
            lambda actor: substances.wash(actor, slot, Can.DRIES),
            lambda actor: substances.dry(actor, slot),
        ]
    return [partial(substances.empty, slot=slot, choice=choice) for choice in range(6)]
