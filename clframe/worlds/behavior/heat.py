"""Temperature: sources, rates and what heat makes of things.

The law and the figures are those of BEHAVIOR's simulators: a thing under a source goes to the
source's temperature at a rate per second, otherwise to 23 degrees at 0.02 per second. Between two
events the surroundings of a thing stay the same, so its temperature is an exponential, which is
exact for any duration.
"""

from __future__ import annotations

from functools import cache
from math import exp

from clframe.worlds.behavior.categories import Can, lemma
from clframe.worlds.behavior.household import Household
from clframe.worlds.behavior.places import family
from clframe.worlds.behavior.state import ABSENT, AMBIENT, INSIDE, ONTOP, State

COOKED, BURNT, FROZEN, HOT, ON_FIRE = 70.0, 200.0, 0.0, 40.0, 250.0
"""Thresholds in degrees Celsius: cooked and burnt of the hottest so far, the others of now."""
DECAY = 0.02
HEATER = (200.0, 0.04)
"""Temperature and rate of a source for which nothing else is published."""
PUBLISHED = {"microwave": (1000.0, 0.04), "stove": (500.0, 0.02)}
COOLER = (-20.0, 0.04)
"""A cold source; the rate is that of other sources, the temperature that of a household freezer."""
_SETTLED = 0.01
_OVEN = Can.HEATS_INSIDE | Can.HEATS_ITSELF
_SOURCE = _OVEN | Can.HEATS_ON_TOP | Can.COOLS


@cache
def source_of(category: str) -> tuple[float, float]:
    """Temperature and rate of a heat source's category."""
    return PUBLISHED.get(lemma(category), HEATER)


@cache
def _share(rate: float, seconds: float) -> float:
    return exp(-rate * seconds)


def surroundings(household: Household, state: State, slot: int) -> tuple[float, float]:
    """The temperature a thing goes to and its rate per second: the nearest active source's."""
    can = household.can
    if can[slot] & Can.HEATS_ITSELF and state.toggled[slot]:
        return source_of(household.types[slot])
    child = slot
    while (parent := state.parent[child]) >= 0:
        abilities = can[parent]
        if abilities & _SOURCE:
            relation = state.relation[child]
            closed = not (abilities & Can.OPENABLE and state.opened[parent])
            if abilities & Can.COOLS and relation == INSIDE and closed:
                return COOLER
            if state.toggled[parent] or not abilities & Can.TOGGLEABLE:
                if relation == INSIDE and closed and abilities & _OVEN:
                    return source_of(household.types[parent])
                if relation == ONTOP and abilities & Can.HEATS_ON_TOP:
                    return source_of(household.types[parent])
        child = parent
    return AMBIENT, DECAY


def disturb(household: Household, state: State, slot: int) -> None:
    """Note that the surroundings of a thing and of all on and in it may have changed."""
    state.changing |= frozenset(family(state, slot))


def pass_time(household: Household, state: State, seconds: float) -> None:
    """Let simulated time go by."""
    state.time += seconds
    if not state.changing:
        return
    settled = []
    for slot in sorted(state.changing):
        if state.relation[slot] == ABSENT:
            settled.append(slot)
            continue
        goal, rate = surroundings(household, state, slot)
        before = state.temperature[slot]
        now = goal + (before - goal) * _share(rate, seconds)
        if abs(now - goal) < _SETTLED:
            now = goal
            settled.append(slot)
        state.temperature[slot] = now
        if now > state.hottest[slot]:
            state.hottest[slot] = now
        if now >= COOKED:
            _heat_changes(household, state, slot)
        if now != before:
            state.version += 1
    if settled:
        state.changing -= frozenset(settled)


def _heat_changes(household: Household, state: State, slot: int) -> None:
    """Turn what is in and on a heated thing, and the thing itself, into what heat makes of them."""
    matter = state.contains[slot] | state.covered[slot]
    for bit, product in household.heated.items() if matter else ():
        if matter & bit:
            for store in (state.contains, state.covered, state.filled):
                if store[slot] & bit:
                    store[slot] = store[slot] & ~bit | product
    product = household.melted.get(slot, 0)
    if product and state.parent[slot] >= 0:
        add_substance(household, state, state.parent[slot], product)
        vanish(state, slot)


def add_substance(household: Household, state: State, slot: int, bits: int) -> None:
    """Put substances into a container, or onto what holds nothing."""
    if household.can[slot] & Can.CONTAINER and not household.floor[slot]:
        state.contains[slot] |= bits
        state.filled[slot] |= bits
    else:
        state.covered[slot] |= bits


def vanish(state: State, slot: int) -> None:
    """Take a thing out of the world; what was on it falls to what it was on."""
    parent, relation = state.parent[slot], state.relation[slot]
    for child, holder in enumerate(state.parent):
        if holder == slot:
            state.parent[child] = parent
            state.relation[child] = relation
    state.relation[slot] = ABSENT
    state.parent[slot] = -1
    state.under[slot] = state.leaning[slot] = -1
    for store in (state.covered, state.contains, state.filled, state.soaked):
        store[slot] = 0
    for flags in (state.opened, state.toggled, state.folded, state.unfolded, state.broken):
        flags[slot] = 0
    state.temperature[slot] = state.hottest[slot] = AMBIENT
    state.joints = frozenset(pair for pair in state.joints if slot not in pair)
