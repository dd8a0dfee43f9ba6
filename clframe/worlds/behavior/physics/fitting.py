"""Which body every thing of an activity gets, and which activities a table cannot have."""

from __future__ import annotations

from dataclasses import dataclass, field

from clframe.worlds.bddl import Literal
from clframe.worlds.behavior.categories import Can
from clframe.worlds.behavior.faults import ActivityError, at_goal, at_literal, at_object
from clframe.worlds.behavior.household import Household
from clframe.worlds.behavior.physics import bodies, furniture
from clframe.worlds.behavior.physics.furniture import Load
from clframe.worlds.behavior.sampling import Instance
from clframe.worlds.behavior.state import ABSENT, INSIDE, ONTOP
from clframe.worlds.behavior.tracker import GoalTracker
from clframe.worlds.tabletop.assets import Asset

JUDGED = ("inside", "ontop", "onfloor", "nextto", "open", "toggled_on")
"""Predicates that are decided by physics."""
_PLACING = ("inside", "ontop", "onfloor", "nextto")
_MOST = 24
"""Most things that one piece of furniture holds."""


@dataclass
class Cast:
    """The bodies of an activity.

    Attributes:
        household: Whose things.
        assets: Name -> body, of everything but floors, substances and the agent.
        standing: Names of what stands still, in the order of slots.
        free: Names of what can move.
        floors: Names of the floors, each a part of the table.
        holder: Standing thing -> what it stands on at the start: a floor or another one.
        loads: Floor -> how many things lie on it, and how large they are.
        margins: Standing thing -> how much ground around it stays free for objects next to it.
    """

    household: Household
    assets: dict[str, Asset] = field(default_factory=dict)
    standing: list[str] = field(default_factory=list)
    free: list[str] = field(default_factory=list)
    floors: list[str] = field(default_factory=list)
    holder: dict[str, str] = field(default_factory=dict)
    loads: dict[str, Load] = field(default_factory=dict)
    margins: dict[str, float] = field(default_factory=dict)


def fit(instance: Instance) -> Cast:
    """Choose a body for everything.

    Raises:
        ActivityError: If the activity cannot be had on a table; the sentence names the literal or
            the thing.
    """
    return _Fitter(instance).run()


class _Fitter:
    def __init__(self, instance: Instance) -> None:
        self.household = instance.household
        self.start = instance.start
        self.problem = instance.household.problem
        self.tracker = GoalTracker(instance.household)
        self.cast = Cast(self.household)
        self._making: set[int] = set()

    def run(self) -> Cast:
        self._check_words()
        self._note_uses()
        household = self.household
        for slot, name in enumerate(household.names):
            if household.floor[slot]:
                self.cast.floors.append(name)
            elif slot != household.agent and not household.can[slot] & Can.SUBSTANCE:
                self._check_start(slot)
                self._body(slot)
        for name in household.names:
            if name in self.cast.assets:
                still = self.cast.assets[name].grip is None and self._stands(name)
                (self.cast.standing if still else self.cast.free).append(name)
        for name in self.cast.standing:
            slot = household.index[name]
            self.cast.holder[name] = household.names[self.start.parent[slot]]
            around = self._load(slot, self.beside[slot])
            self.cast.margins[name] = 2 * around.radius + 0.03 if around.count else 0.0
        for name in self.cast.floors:
            slot = household.index[name]
            # What stands has ground of its own; one more thing may be put down at any time.
            lying = [s for s in self._on(slot) if household.names[s] in self.cast.free]
            radii = [self.cast.assets[household.names[s]].radius for s in lying]
            self.cast.loads[name] = Load((0.035, *radii))
        return self.cast

    # ------------------------------------------------------------------ what is asked

    def _check_words(self) -> None:
        household = self.household
        for atom in self.tracker.atoms:
            if atom[0] not in JUDGED:
                sentence = (
                    f"({' '.join(atom)}) cannot be had with physics: {atom[0]!r} is not simulated."
                )
                raise at_goal(self.problem, atom, sentence)
            for slot in household.literal_slots(atom):
                if household.can[slot] & Can.SUBSTANCE:
                    raise self._unreachable(atom, f"{household.names[slot]} is a substance")
        for entry in self.problem.init_literals:
            predicate, text = entry.literal[0], " ".join(entry.literal)
            if entry.positive and predicate in ("under", "attached", "draped", "overlaid"):
                sentence = (
                    f"({text}) cannot be set up with physics: {predicate!r} is not simulated."
                )
                raise at_literal(self.problem, entry, sentence)

    def _unreachable(self, atom: Literal, why: str) -> ActivityError:
        sentence = f"({' '.join(atom)}) cannot be had with physics: {why}."
        return at_goal(self.problem, atom, sentence)

    def _note_uses(self) -> None:
        """What is put on and in what, what is opened and switched, what has to be carried."""
        household, start = self.household, self.start
        count = len(household.names)
        self.inside: list[set[int]] = [set() for _ in range(count)]
        self.above: list[set[int]] = [set() for _ in range(count)]
        self.beside: list[set[int]] = [set() for _ in range(count)]
        for slot in range(count):
            if slot != household.agent and start.relation[slot] in (ONTOP, INSIDE):
                uses = self.inside if start.relation[slot] == INSIDE else self.above
                uses[start.parent[slot]].add(slot)
        truth = self.tracker.true_atoms(self.tracker.truth(start))
        option = self.tracker.goal.nearest_option(truth) or ()
        for atom, wanted in option:
            if wanted and atom[0] in ("inside", "ontop", "onfloor"):
                first, second = household.literal_slots(atom)
                (self.inside if atom[0] == "inside" else self.above)[second].add(first)
            elif wanted and atom[0] == "nextto":
                first, second = household.literal_slots(atom)
                self.beside[second].add(first)
        self.opened: set[int] = set()
        self.switched: set[int] = set()
        self.carried: dict[int, Literal] = {}
        for atom in self.tracker.atoms:
            slots = household.literal_slots(atom)
            if atom[0] == "open":
                self.opened.add(slots[0])
            elif atom[0] == "toggled_on":
                self.switched.add(slots[0])
            elif atom[0] in _PLACING and atom not in truth and household.carried[slots[0]]:
                self.carried[slots[0]] = atom

    def _on(self, slot: int) -> set[int]:
        return {s for s in self.above[slot] if s != self.household.agent}

    def _check_start(self, slot: int) -> None:
        name, relation = self.household.names[slot], self.start.relation[slot]
        if relation == ABSENT:
            sentence = f"{name} cannot be had with physics: it does not exist at the start."
            raise at_object(self.problem, name, sentence)

    # ------------------------------------------------------------------ bodies

    def _stands(self, name: str) -> bool:
        slot = self.household.index[name]
        asset = self.cast.assets[name]
        return bool(asset.parts) or self.household.fixed[slot] or name in self._furniture()

    def _furniture(self) -> set[str]:
        """What is part of a room and does not have to be carried."""
        household = self.household
        return {
            name for name in household.things.fixed if household.index[name] not in self.carried
        }

    def _refuse(self, slot: int, why: str) -> ActivityError:
        name = self.household.names[slot]
        return at_object(self.problem, name, f"{name} cannot be had on a table: {why}.")

    def _load(self, slot: int, members: set[int]) -> Load:
        if len(members) > _MOST:
            raise self._refuse(slot, f"it has to hold {len(members)} things, more than {_MOST}")
        return Load(tuple(self._body(member).radius for member in sorted(members)))

    def _body(self, slot: int) -> Asset:
        name = self.household.names[slot]
        if name not in self.cast.assets:
            if slot in self._making:
                raise self._refuse(slot, "it is to hold what holds it")
            self._making.add(slot)
            self.cast.assets[name] = self._make(slot)
        return self.cast.assets[name]

    def _make(self, slot: int) -> Asset:
        household = self.household
        category = household.types[slot]
        inside, top = self._load(slot, self.inside[slot]), self._load(slot, self._on(slot))
        atom = self.carried.get(slot)
        opens = bool(household.can[slot] & Can.OPENABLE) and (slot in self.opened or inside.count)
        # What is carried and need not be closed has no lid: a bag, a box.
        opens = opens and (atom is None or slot in self.opened)
        if atom is not None and (opens or slot in self.switched):
            why = f"{household.names[slot]} has a moving part, and what has one stands still"
            raise self._unreachable(atom, why)
        if slot in self.switched:
            if opens or inside.count or top.count:
                raise self._refuse(slot, "a device with a switch holds nothing here")
            return furniture.switch(category)
        if opens:
            if inside.count or top.count:
                return furniture.chest(category, inside, top)
            return furniture.door(category)
        if atom is None and household.names[slot] in household.things.fixed:
            if inside.count:
                return furniture.open_bin(category, inside, top)
            return furniture.bench(category, top, self._load(slot, self.beside[slot]))
        return self._portable(slot, inside, top)

    def _portable(self, slot: int, inside: Load, top: Load) -> Asset:
        category = self.household.types[slot]
        if inside.count:
            if slot in self.carried:
                return bodies.tub(category, _radius(inside))
            return furniture.open_bin(category, inside, Load())
        if top.count:
            return bodies.plate(category, _radius(top))
        return bodies.plain(category)


def _radius(load: Load) -> float:
    """Of a round bottom with room for a load, side by side."""
    return (
        load.radius + 0.012
        if load.count == 1
        else 0.95 * load.radius * (1 + load.count**0.5) + 0.01
    )
