"""Errands with substances: take, pour, soak, clean, cut and cook."""

from __future__ import annotations

from clframe.worlds.behavior.categories import Can
from clframe.worlds.behavior.matter import pourable, removable
from clframe.worlds.behavior.planner.actor import Actor, Stuck
from clframe.worlds.behavior.state import ABSENT
from clframe.worlds.behavior.verbs import Verb


def holders(actor: Actor, bit: int) -> list[int]:
    """Things that a substance can be taken from: carried ones first, then the purest."""
    household, state = actor.household, actor.state
    found = []
    for slot in range(len(household.names)):
        if state.relation[slot] == ABSENT:
            continue
        matter = household.yields[slot] | pourable(household, state, slot)
        if matter & bit:
            found.append((not household.carried[slot], matter.bit_count(), slot))
    return [slot for _, _, slot in sorted(found)]


def run_tap(actor: Actor, source: int, keep: int = -1) -> None:
    """Switch a source on, if it has a switch and only flows when on."""
    if actor.household.yields[source] and actor.household.can[source] & Can.TOGGLEABLE:
        actor.switch(source, True, keep)


def vessels(actor: Actor, *without: int) -> list[int]:
    """Containers that can be carried, empty ones first."""
    household, state = actor.household, actor.state
    found = [
        (bool(state.contains[slot]), bool(household.can[slot] & Can.OPENABLE), slot)
        for slot in range(len(household.names))
        if household.carried[slot]
        and household.can[slot] & Can.CONTAINER
        and state.relation[slot] != ABSENT
        and slot not in without
    ]
    return [slot for _, _, slot in sorted(found)]


def take(actor: Actor, bit: int, without: int) -> None:
    """Have a thing in hand from which a substance can be poured."""
    household = actor.household
    found = [slot for slot in holders(actor, bit) if slot != without]
    if not found:
        raise Stuck(f"there is no {substance_name(actor, bit)} to take")
    if household.carried[found[0]]:
        actor.pick(found[0])
        return
    for vessel in vessels(actor, without)[:1]:
        actor.pick(vessel)
        run_tap(actor, found[0], vessel)
        actor.reach(found[0])
        actor.do(Verb.FILL, found[0])
        return
    raise Stuck(f"there is no vessel to carry {substance_name(actor, bit)} in")


def substance_name(actor: Actor, bit: int) -> str:
    """The name of a substance."""
    names = (name for name, value in actor.household.bit.items() if value == bit)
    return next(names, "water")


def cover(actor: Actor, slot: int, bit: int) -> None:
    """Put a substance onto a thing."""
    actor.access(slot)
    take(actor, bit, slot)
    actor.go(slot)
    actor.do(Verb.POUR_ON, slot)


def fill(actor: Actor, slot: int, bit: int) -> None:
    """Put a substance into a container."""
    household = actor.household
    source = next((other for other in holders(actor, bit) if other != slot), -1)
    if source >= 0 and not household.carried[source] and household.carried[slot]:
        actor.open(slot)
        actor.pick(slot)
        run_tap(actor, source, slot)
        actor.reach(source)
        actor.pick(slot)
        actor.do(Verb.FILL, source)
        return
    actor.access(slot)
    actor.open(slot)
    take(actor, bit, slot)
    actor.go(slot)
    actor.do(Verb.POUR_INTO, slot)


def empty(actor: Actor, slot: int, choice: int = 0) -> None:
    """Empty a container into a drain or another container: the first, second, ... of these."""
    taps = actor.able(Can.TAP)
    others = [other for other in actor.able(Can.CONTAINER) if other not in taps]
    drains = [other for other in (*taps, *others) if other != slot]
    if choice >= len(drains):
        raise Stuck("there is nothing to empty it into")
    drain = drains[choice]
    actor.open(slot)
    actor.open(drain)
    actor.stand(drain)
    actor.pick(slot)
    actor.reach(drain)
    actor.do(Verb.EMPTY, drain)


def soak(actor: Actor, slot: int, bit: int) -> None:
    """Let a thing take up a liquid."""
    found = [other for other in holders(actor, bit) if other != slot]
    found.sort(key=lambda other: not actor.household.can[other] & Can.TAP)
    if not found:
        raise Stuck(f"there is no {substance_name(actor, bit)} to take")
    actor.stand(found[0])
    actor.pick(slot)
    run_tap(actor, found[0], slot)
    actor.reach(found[0])
    actor.pick(slot)
    actor.do(Verb.SOAK, found[0])


def wipe(actor: Actor, slot: int, bits: int) -> None:
    """Take substances off a thing with a tool, wet where it must be."""
    household, state = actor.household, actor.state
    marks = bits & household.masks[Can.MARK]
    ability = Can.PRESSES | Can.SANDS if marks else Can.CLEANER
    tools = [tool for tool in actor.able(ability) if tool != slot and household.carried[tool]]
    if not tools:
        raise Stuck("there is no tool that takes it off")
    tools.sort(key=lambda tool: (tool not in state.hands, not household.can[tool] & Can.SOAKABLE))
    tool = tools[0]
    if bits & ~removable(household, state, tool):
        _wet(actor, tool)
    actor.stand(slot)
    actor.access(slot)
    actor.pick(tool)
    actor.go(slot)
    actor.do(Verb.WIPE, slot)


def _wet(actor: Actor, tool: int) -> None:
    liquid = actor.household.masks[Can.LIQUID]
    order = [actor.household.water] if actor.household.water else []
    order += [bit for bit in actor.household.bit.values() if bit & liquid]
    for bit in order:
        if any(slot != tool for slot in holders(actor, bit)):
            soak(actor, tool, bit)
            return
    raise Stuck("there is no liquid to wet a tool with")


def wash(actor: Actor, slot: int, ability: int) -> None:
    """Let a machine wash or dry a thing."""
    machines = actor.able(ability)
    if not machines:
        raise Stuck("there is no machine for it")
    machine = machines[0]
    actor.switch(machine, False)
    actor.put(slot, Verb.PLACE_INSIDE, machine)
    actor.close(machine)
    actor.switch(machine, True)


def dry(actor: Actor, slot: int) -> None:
    """Dry a thing by hand."""
    tools = [
        tool
        for tool in actor.able(Can.DRIES_BY_AIR | Can.SOAKABLE)
        if tool != slot and not actor.state.soaked[tool] and actor.household.carried[tool]
    ]
    if not tools:
        raise Stuck("there is nothing to dry it with")
    actor.access(slot)
    actor.pick(tools[0])
    actor.go(slot)
    actor.do(Verb.DRY, slot)
