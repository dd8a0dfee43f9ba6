"""A symbolic world of LIBERO problems: what can be done, and whether a goal can be reached.

Objects are where ``:init`` puts them, doors and drawers are closed and devices off unless ``:init``
says otherwise. A step moves one object that nothing stands on to a place that accepts its kind, has
room and is not closed, or opens or closes a part, or turns a device on or off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from clframe.worlds.bddl.errors import BDDLError
from clframe.worlds.bddl.generate.object_catalog import Catalog, Category
from clframe.worlds.bddl.problem import Problem
from clframe.worlds.bddl.syntax import Literal

# The longest plan any template needs is six steps; two more leave room for things in the way.
_LONGEST_PLAN = 8


@dataclass(frozen=True)
class Place:
    """Somewhere an object can be."""

    name: str
    relation: str
    accepts: frozenset[str] | None  # None: anything that can be moved
    capacity: int
    part: str | None = None  # what must be open


@dataclass(frozen=True)
class State:
    """Where every object is, which parts are open and which devices are on."""

    at: tuple[tuple[str, str], ...]
    open: frozenset[str]
    running: frozenset[str]


class World:
    """The places, parts and devices of a problem.

    Args:
        problem: A problem in LIBERO's dialect.
        catalog: Its categories.

    Raises:
        BDDLError: If the problem uses a category or a placement that the catalog does not know.
    """

    def __init__(self, problem: Problem, catalog: Catalog) -> None:
        self.problem = problem
        self.categories: dict[str, Category] = {}
        for name, kind in problem.objects.items():
            self.categories[name] = _known(catalog.objects.get(kind), name, kind)
        arena = catalog.arena_of(problem.name)
        workspaces = {arena.category} if arena else set()
        for name, kind in problem.fixtures.items():
            if kind not in workspaces:
                self.categories[name] = _known(catalog.fixtures.get(kind), name, kind)
        self.places: dict[str, Place] = {}
        self.parts: set[str] = set()
        self.devices = {name for name, category in self.categories.items() if category.device}
        self._find_places()
        self.start = self._start()

    def literals(self, state: State) -> frozenset[Literal]:
        """Everything that holds in a state."""
        literals: set[Literal] = {
            (self.places[place].relation, name, place) for name, place in state.at
        }
        for part in self.parts:
            literals.add(("open" if part in state.open else "close", part))
        for device in self.devices:
            literals.add(("turnon" if device in state.running else "turnoff", device))
        return frozenset(literals)

    def fits(self, name: str, place: Place) -> bool:
        """Whether a place accepts an object."""
        return place.accepts is None or self.categories[name].kind in place.accepts

    def _find_places(self) -> None:
        for name, category in self.categories.items():
            if category.accepts:
                self.places[name] = Place(name, "on", category.accepts, 1)
            if category.door:
                self.parts.add(name)
        fixed = {entry[-1] for entry in self.problem.init if entry[1] in self.problem.fixtures}
        for region in self.problem.regions:
            target, full = self.categories.get(region.target), region.full_name
            if region.ranges:
                self.places[full] = Place(full, "on", None, 0 if full in fixed else 1)
            elif target is not None and region.name in target.sites:
                site = target.sites[region.name]
                part = {"site": full, "fixture": region.target, None: None}[site.door]
                self.places[full] = Place(full, site.relation, site.accepts, site.capacity, part)
                if site.door == "site":
                    self.parts.add(full)

    def _start(self) -> State:
        at: dict[str, str] = {}
        is_open: set[str] = set()
        running: set[str] = set()
        for entry in self.problem.init_literals:
            predicate, name, *rest = entry.literal
            if not entry.positive:
                continue
            if predicate == "open":
                is_open.add(name)
            elif predicate == "turnon":
                running.add(name)
            elif rest and name in self.problem.objects:
                place = self.places.get(rest[0])
                if place is None or place.relation != predicate or not self.fits(name, place):
                    raise _refused(entry.at, f"{name} cannot be {predicate} {rest[0]}.")
                if name in at:
                    raise _refused(entry.at, f"{name} is in two places at the start.")
                at[name] = rest[0]
        for name in self.problem.objects:
            if name not in at:
                raise BDDLError(f"{name} is nowhere at the start; put it on or in something.")
        return State(tuple(at.items()), frozenset(is_open), frozenset(running))


def solve(problem: Problem, catalog: Catalog) -> list[str] | None:
    """A shortest plan that reaches the goal, as sentences, or None if there is none.

    Breadth-first over the steps that can matter: those on objects, parts and devices that the goal
    names, on what stands in their way, and on the doors of the places involved.
    """
    world = World(problem, catalog)
    goal = problem.goal
    seen = {world.start}
    queue: deque[tuple[State, tuple[str, ...]]] = deque([(world.start, ())])
    while queue:
        state, plan = queue.popleft()
        if goal.satisfied(world.literals(state)):
            return list(plan)
        if len(plan) == _LONGEST_PLAN:
            continue
        for sentence, after in _steps(world, state):
            if after not in seen:
                seen.add(after)
                queue.append((after, (*plan, sentence)))
    return None


def _steps(world: World, state: State) -> Iterator[tuple[str, State]]:
    wanted = world.problem.goal.atoms
    at = dict(state.at)
    moves: dict[str, set[str]] = {}
    for atom in wanted:
        if len(atom) == 3 and atom[1] in at:
            moves.setdefault(atom[1], set()).add(atom[2])
    open_ground = [p.name for p in world.places.values() if p.accepts is None and p.capacity]
    free = [place for place in open_ground if place not in at.values()]
    involved = {*moves, *(place for places in moves.values() for place in places)}
    for name, place in at.items():
        if place in involved and name not in moves:  # in the way: anywhere free will do
            moves[name] = set(free[:1])
    parts = {at[name] for name in moves} | {place for places in moves.values() for place in places}
    doors = {world.places[place].part for place in parts if place in world.places}
    mentioned = {atom[1] for atom in wanted if len(atom) == 2}
    for part in sorted(world.parts):
        if part in state.open and part in mentioned:
            yield f"close {part}", State(state.at, state.open - {part}, state.running)
        elif part not in state.open and (part in mentioned or part in doors):
            yield f"open {part}", State(state.at, state.open | {part}, state.running)
    for device in sorted(world.devices & mentioned):
        verb = "turn off" if device in state.running else "turn on"
        yield f"{verb} {device}", State(state.at, state.open, state.running ^ {device})
    for name in sorted(moves):
        for target in sorted(moves[name]):
            if _can_move(world, state, at, name, target):
                after = tuple((n, target if n == name else p) for n, p in state.at)
                yield f"move {name} to {target}", State(after, state.open, state.running)


def _can_move(world: World, state: State, at: dict[str, str], name: str, target: str) -> bool:
    place = world.places.get(target)
    if place is None or target in (name, at[name]) or not world.fits(name, place):
        return False
    if name in at.values():  # something stands on it
        return False
    closed = {part for part in (place.part, world.places[at[name]].part) if part} - state.open
    return not closed and list(at.values()).count(target) < place.capacity


def _known(category: Category | None, name: str, kind: str) -> Category:
    if category is None:
        raise BDDLError(f"{name} is of the category {kind!r}, which the catalog does not have.")
    return category


def _refused(at: tuple[int, int], sentence: str) -> BDDLError:
    return BDDLError(sentence, at[0], at[1])
