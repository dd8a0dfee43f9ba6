"""Errands that make things into others: cut, cook, melt, freeze."""

from __future__ import annotations

from collections.abc import Callable

from clframe.worlds.behavior import heat
from clframe.worlds.behavior.categories import Can
from clframe.worlds.behavior.facts import exists
from clframe.worlds.behavior.planner.actor import Actor, Stuck
from clframe.worlds.behavior.planner.substances import (
    cover,
    fill,
    holders,
    substance_name,
    vessels,
)
from clframe.worlds.behavior.state import ABSENT, INSIDE, ONTOP, State
from clframe.worlds.behavior.verbs import Verb

Done = Callable[[State], bool]


def cut(actor: Actor, slot: int, vessel: int = -1) -> None:
    """Cut a thing; what is diced goes into a vessel."""
    household = actor.household
    if not household.old_words and slot not in household.halves:
        choice = [vessel] if vessel >= 0 else vessels(actor, slot)
        if choice and not household.fixed[choice[0]]:
            actor.put(slot, Verb.PLACE_INSIDE, choice[0])
    blades = [blade for blade in actor.able(Can.SLICER) if household.carried[blade]]
    if not blades:
        raise Stuck("there is no blade")
    actor.stand(slot)
    actor.access(slot)
    actor.pick(blades[0])
    actor.go(slot)
    actor.do(Verb.SLICE, slot)


def make_thing(actor: Actor, slot: int) -> None:
    """Bring a thing into being: a half is cut from its whole."""
    household = actor.household
    if exists(household, actor.state, slot):
        return
    name = household.names[slot]
    wholes = [whole for whole, halves in household.halves.items() if slot in halves]
    if not wholes:
        raise Stuck(f"no primitive makes {name}")
    cut(actor, actor.need(wholes, f"nothing left to cut {name} from")[0])


def make_substance(actor: Actor, bit: int, vessel: int = -1, depth: int = 0) -> None:
    """Bring a substance into being by pouring it from its source, cutting or heating.

    Args:
        actor: Who does it.
        bit: The substance.
        vessel: The vessel that needs it, or -1.
        depth: How many steps of making this one serves.
    """
    household, state = actor.household, actor.state
    if any(slot != vessel for slot in holders(actor, bit)):
        targets = [vessel] if vessel >= 0 else vessels(actor, *holders(actor, bit)[:1])
        if not targets:
            raise Stuck("there is no vessel to pour it into")
        put_in_or_on(actor, targets[0], bit)
        return
    cuttable = [whole for whole, product in household.diced.items() if product == bit]
    cuttable = [whole for whole in cuttable if state.relation[whole] != ABSENT]
    raw = [source for source, product in household.heated.items() if product == bit]
    melting = [thing for thing, product in household.melted.items() if product == bit]
    melting = [thing for thing in melting if state.relation[thing] != ABSENT]
    if cuttable:
        halves = household.halves.get(cuttable[0], [])
        cut(actor, cuttable[0], vessel)
        if halves:
            cut(actor, halves[0], vessel)
    elif raw and depth < 4:
        _cook_substance(actor, raw[0], bit, vessel, depth)
    elif melting:
        pots = [vessel] if vessel >= 0 else vessels(actor, melting[0])
        if not pots or not household.can[pots[0]] & Can.CONTAINER:
            raise Stuck("there is no vessel to melt it in")
        actor.put(melting[0], Verb.PLACE_INSIDE, pots[0])
        heat_up(actor, pots[0], lambda now: bool(now.contains[pots[0]] & bit))
    else:
        raise Stuck(f"no primitive makes {substance_name(actor, bit)}")


def _cook_substance(actor: Actor, raw: int, bit: int, vessel: int, depth: int) -> None:
    """Have a raw substance in or on something that can be carried, and heat that."""
    household, state = actor.household, actor.state
    pot = vessel
    if pot < 0 or not household.carried[pot]:
        carried = sorted(vessels(actor), key=lambda other: not state.contains[other] & raw)
        if not carried:
            raise Stuck("there is no vessel to cook in")
        pot = carried[0]
    if not (state.contains[pot] | state.covered[pot]) & raw:
        if not holders(actor, raw):
            make_substance(actor, raw, pot, depth + 1)
        if not (state.contains[pot] | state.covered[pot]) & raw:
            put_in_or_on(actor, pot, raw)
    heat_up(actor, pot, lambda now: bool((now.contains[pot] | now.covered[pot]) & bit))


def put_in_or_on(actor: Actor, slot: int, bit: int) -> None:
    """Put a substance into a container, or onto what is none."""
    if actor.household.can[slot] & Can.CONTAINER:
        fill(actor, slot, bit)
    else:
        cover(actor, slot, bit)


def heat_up(actor: Actor, slot: int, done: Done, strongest: bool = False) -> None:
    """Heat a thing until a condition holds, with the first source for which that works."""
    household = actor.household
    if done(actor.state):
        return
    abilities = Can.HEATS_ITSELF | Can.HEATS_INSIDE | Can.HEATS_ON_TOP
    sources = actor.able(abilities)
    if household.can[slot] & Can.HEATS_ITSELF:
        actor.switch(slot, True)
        actor.wait_until(done)
        return
    if heat.surroundings(household, actor.state, slot)[0] > heat.COOKED:
        actor.wait_until(done)
        return
    if strongest:
        sources.sort(key=lambda source: -heat.source_of(household.types[source])[0])
    if not sources:
        raise Stuck("there is no source of heat")
    source = sources[0]
    within = household.can[source] & (Can.HEATS_INSIDE | Can.HEATS_ITSELF)
    actor.stand(slot)
    relation = INSIDE if within else ONTOP
    if (actor.state.parent[slot], actor.state.relation[slot]) != (source, relation):
        actor.put(slot, Verb.PLACE_INSIDE if within else Verb.PLACE_ON_TOP, source)
    actor.close(source)
    if household.can[source] & Can.TOGGLEABLE:
        actor.switch(source, True)
    actor.wait_until(done)


def cool_down(actor: Actor, slot: int, done: Done) -> None:
    """Cool a thing until a condition holds."""
    coolers = actor.able(Can.COOLS)
    if not coolers:
        raise Stuck("there is no freezer")
    inside = actor.state.parent[slot] in coolers
    if not inside:
        actor.put(slot, Verb.PLACE_INSIDE, coolers[0])
    actor.close(coolers[0] if not inside else actor.state.parent[slot])
    actor.wait_until(done)
