"""Instances: worlds in which an activity's initial conditions hold, drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clframe.worlds.bddl import Problem
from clframe.worlds.bddl.syntax import InitLiteral
from clframe.worlds.behavior import heat
from clframe.worlds.behavior.categories import Can
from clframe.worlds.behavior.facts import fact
from clframe.worlds.behavior.faults import at_literal, at_object
from clframe.worlds.behavior.household import DUST, STAIN, Household
from clframe.worlds.behavior.places import spot_inside, spot_on_top
from clframe.worlds.behavior.scene import lay_out
from clframe.worlds.behavior.state import (
    ABSENT,
    ATTACHED,
    DRAPED,
    INSIDE,
    ONTOP,
    OVERLAID,
    State,
)
from clframe.worlds.behavior.supplies import agent_literal, gather

PLACES = {
    "inside": INSIDE,
    "ontop": ONTOP,
    "onfloor": ONTOP,
    "overlaid": OVERLAID,
    "draped": DRAPED,
    "attached": ATTACHED,
    "under": ONTOP,
}
"""Predicates that give a thing its place."""
_UNSAMPLED = ("nextto", "touching", "grasped")
_FLAGS = {"open": "opened", "toggled_on": "toggled", "folded": "folded", "unfolded": "unfolded"}
_NEEDED = {
    "open": (Can.OPENABLE, "opened"),
    "toggled_on": (Can.TOGGLEABLE, "switched on"),
    "folded": (Can.CLOTH, "folded"),
    "unfolded": (Can.CLOTH, "unfolded"),
}


@dataclass(frozen=True)
class Instance:
    """A household and how it is at the start."""

    household: Household
    start: State
    seed: int


def sample(problem: Problem, seed: int = 0) -> Instance:
    """Draw an instance of an activity; the same seed gives the same instance.

    Raises:
        ActivityError: If no household meets the initial conditions; the error is at the literal
            that cannot be met.
    """
    household = Household(problem, gather(problem))
    state = State.empty(len(household.names))
    rng = np.random.default_rng((seed, 0xBEAD))
    lay_out(household, state, rng)
    _stand_agent(household, state, rng)
    _Placer(household, state, rng).run()
    for entry in problem.init_literals:
        if entry.positive:
            _set(household, state, rng, entry)
        elif entry.literal[0] in PLACES or entry.literal[0] in _UNSAMPLED:
            sentence = "A place where a thing is not cannot be sampled; say where it is."
            raise at_literal(problem, entry, sentence)
    for slot, relation in enumerate(state.relation):
        if relation > ABSENT and household.carried[slot]:
            settled = heat.surroundings(household, state, slot)[0] == state.temperature[slot]
            state.changing |= frozenset() if settled else {slot}
    _check(household, state)
    return Instance(household, state, seed)


def _stand_agent(household: Household, state: State, rng: np.random.Generator) -> None:
    entry = agent_literal(household.problem)
    assert entry is not None  # gather() refuses an activity without
    floor = household.index[entry.literal[2]]
    if floor not in household.areas:
        raise at_literal(household.problem, entry, "The agent can only start on a floor.")
    area = household.areas[floor]
    offset = rng.uniform(-0.5, 0.5, size=2)
    state.base = (area.center[0] + float(offset[0]), area.center[1] + float(offset[1]))
    state.area = floor
    agent = household.agent
    state.parent[agent], state.relation[agent] = floor, ONTOP
    state.position[agent] = (*state.base, 0.0)
    state.hand_positions = [(state.base[0] + side, state.base[1], 1.0) for side in (-0.2, 0.2)]


class _Placer:
    """Puts every thing where a literal says, supports before what they hold."""

    def __init__(self, household: Household, state: State, rng: np.random.Generator) -> None:
        self.household = household
        self.state = state
        self.rng = rng
        self.problem = household.problem
        future = {
            entry.literal[1]
            for entry in self.problem.init_literals
            if entry.positive and entry.literal[0] == "future"
        }
        self.future = {household.index[name] for name in future}

    def run(self) -> None:
        places: dict[int, list[InitLiteral]] = {}
        for entry in self.problem.init_literals:
            predicate = entry.literal[0]
            if entry.positive and predicate in _UNSAMPLED:
                raise at_literal(self.problem, entry, f"{predicate!r} cannot be sampled.")
            if entry.positive and predicate in PLACES:
                slot = self.household.index[entry.literal[1]]
                if slot != self.household.agent:
                    places.setdefault(slot, []).append(entry)
        order = [
            slot
            for slot, name in enumerate(self.household.names)
            if self.household.carried[slot] and name not in self.household.things.fixed
        ]
        self.rng.shuffle(order)
        waiting = [slot for slot in order if slot not in self.future]
        self._check_placed(waiting, places)
        while waiting:
            ready = [slot for slot in waiting if self._support(slot, places.get(slot, []))]
            if not ready:
                entry = places[waiting[0]][0]
                name = self.household.names[waiting[0]]
                sentence = f"{name!r} rests on something that in the end rests on itself."
                raise at_literal(self.problem, entry, sentence)
            waiting = [slot for slot in waiting if self.state.relation[slot] == ABSENT]

    def _check_placed(self, slots: list[int], places: dict[int, list[InitLiteral]]) -> None:
        for slot in slots:
            name = self.household.names[slot]
            if slot not in places and name not in self.household.things.brought:
                sentence = f"No literal says where {name!r} is at the start."
                raise at_object(self.problem, name, sentence)

    def _support(self, slot: int, entries: list[InitLiteral]) -> bool:
        """Place a thing if all that its literals name is placed; say whether it was."""
        household, state = self.household, self.state
        if not entries:  # brought by the scene
            self._put(slot, state.area, ONTOP)
            return True
        holders = [household.index[entry.literal[2]] for entry in entries]
        if any(state.relation[holder] == ABSENT for holder in holders):
            if all(household.can[holder] & Can.SUBSTANCE for holder in holders):
                raise at_literal(self.problem, entries[0], "A substance holds nothing.")
            return False
        # The place closest to the thing is the one whose other literals follow from it: an apple on
        # a plate in a cabinet is on the plate.
        for entry in entries:
            if entry.literal[0] == "inside":
                self._check_container(entry)
        supports = [
            holder
            for entry, holder in zip(entries, holders, strict=True)
            if PLACES[entry.literal[0]] == ONTOP and entry.literal[0] != "under"
        ]
        for entry, holder in zip(entries, holders, strict=True):
            predicate = entry.literal[0]
            target = holder
            if predicate == "under":
                target = supports[0] if supports else self._ground(entry, holder)
            self._put(slot, target, PLACES[predicate])
            if predicate == "under":
                state.under[slot] = holder
                state.position[slot] = (*state.position[holder][:2], 0.0)
            if predicate == "attached":
                state.joints |= {(slot, holder)}
            # Soap may lie half on a towel and half on the floor.
            second = [other for other in supports if other != target]
            if len(supports) == 2 and len(second) == 1 and state.parent[target] == second[0]:
                state.leaning[slot] = second[0]
            if all(fact(household, other.literal)(state) for other in entries):
                return True
            state.joints = frozenset(pair for pair in state.joints if pair[0] != slot)
            state.under[slot] = state.leaning[slot] = -1
        text = " ".join(entries[-1].literal)
        sentence = f"({text}) cannot hold together with the other conditions on the same object."
        raise at_literal(self.problem, entries[-1], sentence)

    def _ground(self, entry: InitLiteral, holder: int) -> int:
        floor = self.household.area_of.get(holder, self.state.parent[holder])
        if floor < 0 or not self.household.floor[floor]:
            sentence = f"{entry.literal[2]!r} does not stand on a floor, so nothing is under it."
            raise at_literal(self.problem, entry, sentence)
        return floor

    def _check_container(self, entry: InitLiteral) -> None:
        name = entry.literal[2]
        if not self.household.can[self.household.index[name]] & Can.CONTAINER:
            raise at_literal(self.problem, entry, f"{name!r} is no container.")

    def _put(self, slot: int, holder: int, relation: int) -> None:
        state, household = self.state, self.household
        state.parent[slot], state.relation[slot] = holder, relation
        if relation == INSIDE:
            state.position[slot] = spot_inside(household, state, slot, holder)
        elif household.floor[holder]:
            state.position[slot] = self._floor_spot(slot, holder)
        else:
            state.position[slot] = spot_on_top(household, state, slot, holder)

    def _floor_spot(self, slot: int, floor: int) -> tuple[float, float, float]:
        """A free place around a point of the floor that is drawn at random."""
        state, area = self.state, self.household.areas[floor]
        stood = state.base
        spread = area.half * 0.6
        dx, dy = self.rng.uniform(-spread, spread, size=2)
        state.base = (area.center[0] + float(dx), area.center[1] + float(dy))
        spot = spot_on_top(self.household, state, slot, floor)
        state.base = stood
        return spot


def _set(household: Household, state: State, rng: np.random.Generator, entry: InitLiteral) -> None:
    """Bring about one positive literal that is not a place."""
    predicate, name = entry.literal[:2]
    slot = household.index[name]
    if predicate in PLACES or predicate in ("inroom", "future", "insource", "real"):
        return
    if predicate in _NEEDED:
        ability, word = _NEEDED[predicate]
        if not household.can[slot] & ability:
            sentence = f"{name!r} cannot be {word}: no {household.types[slot]} can."
            raise at_literal(household.problem, entry, sentence)
        getattr(state, _FLAGS[predicate])[slot] = 1
    elif predicate in ("sliced", "broken"):
        getattr(state, predicate)[slot] = 1
    elif predicate in ("dusty", "stained"):
        state.covered[slot] |= household.bit[DUST if predicate == "dusty" else STAIN]
    elif predicate == "soaked":
        state.soaked[slot] |= household.water
    elif predicate in ("covered", "filled", "contains", "saturated"):
        _set_matter(household, state, entry)
    else:
        _set_heat(state, rng, predicate, slot)


def _set_matter(household: Household, state: State, entry: InitLiteral) -> None:
    predicate, name, substance = entry.literal
    slot = household.index[name]
    bit = household.bit.get(substance, 0)
    if not bit:
        raise at_literal(household.problem, entry, f"{substance!r} is no substance.")
    if predicate == "covered":
        state.covered[slot] |= bit
    elif predicate == "saturated":
        state.soaked[slot] |= bit
    else:
        if not household.can[slot] & Can.CONTAINER:
            raise at_literal(household.problem, entry, f"{name!r} is no container.")
        state.contains[slot] |= bit
        if predicate == "filled":
            state.filled[slot] |= bit


def _set_heat(state: State, rng: np.random.Generator, predicate: str, slot: int) -> None:
    """Degrees for a state of temperature, drawn as BEHAVIOR's simulators do."""
    if predicate == "frozen":
        state.temperature[slot] = heat.FROZEN - float(rng.uniform(10, 50))
    elif predicate == "hot":
        state.temperature[slot] = heat.HOT + float(rng.uniform(10, 20))
    elif predicate in ("cooked", "burnt"):
        state.hottest[slot] = heat.COOKED if predicate == "cooked" else heat.BURNT
    elif predicate == "on_fire":
        state.temperature[slot] = heat.ON_FIRE
    state.hottest[slot] = max(state.hottest[slot], state.temperature[slot])


def _check(household: Household, state: State) -> None:
    """Make sure that all of ``:init`` holds, whatever the literals did to each other."""
    for entry in household.problem.init_literals:
        predicate = entry.literal[0]
        if predicate in ("inroom", "insource", "future"):
            continue
        if any(name.endswith("_*") for name in entry.literal):
            continue
        if fact(household, entry.literal)(state) != entry.positive:
            text = " ".join(entry.literal)
            wanted = "hold" if entry.positive else "fail to hold"
            sentence = f"({text}) cannot {wanted} together with the other initial conditions."
            raise at_literal(household.problem, entry, sentence)
