"""Activities without end, drawn from the vocabulary of BEHAVIOR-100.

A generated activity is a text in BDDL as a person would write it: a room with furniture that
published activities have there, things that they carry, and a goal that puts things somewhere and
may ask for a state besides. Only what starts unsolved and the planner solves is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from clframe.errors import ClframeError, SettingError
from clframe.worlds.behavior.categories import Can, categories
from clframe.worlds.behavior.corpus import activities, load_activity, read_activity
from clframe.worlds.behavior.planner.search import plan
from clframe.worlds.behavior.sampling import sample
from clframe.worlds.behavior.tracker import GoalTracker

_TRIES = 50
_SECONDS = 2.0
_AGENT, _FLOOR = "agent.n.01", "floor.n.01"


@dataclass(frozen=True)
class Vocabulary:
    """What the published activities speak of.

    Args:
        furniture: Room -> categories of furniture that stand there.
        supports: Categories that things lie on.
        containers: Categories of furniture that things are in.
        things: Categories that are carried.
        cut: Those of them that are cut.
        cleaned: State (dusty, stained) -> categories that are freed of it.
    """

    furniture: Mapping[str, tuple[str, ...]]
    supports: frozenset[str]
    containers: frozenset[str]
    things: tuple[str, ...]
    cut: frozenset[str]
    cleaned: Mapping[str, frozenset[str]]


@cache
def vocabulary() -> Vocabulary:
    """Read the vocabulary off BEHAVIOR-100."""
    table = categories()
    furniture: dict[str, set[str]] = {}
    on: set[str] = set()
    within: set[str] = set()
    things: set[str] = set()
    cut: set[str] = set()
    cleaned: dict[str, set[str]] = {"dusty": set(), "stained": set()}
    for name in activities("b100"):
        problem = load_activity("b100", name)
        kind = {**{t: t for t in table}, **problem.objects}
        for entry in problem.init_literals:
            word, *terms = entry.literal
            if word == "inroom" and not table[kind[terms[0]]] & (Can.FLOOR | Can.MOVABLE):
                furniture.setdefault(terms[1], set()).add(kind[terms[0]])
            elif word in ("ontop", "inside", "onfloor") and entry.positive:
                thing = kind[terms[0]]
                if thing != _AGENT and not table[thing] & (Can.FIXTURE | Can.FLOOR):
                    things.add(thing)
                if word != "onfloor":
                    (on if word == "ontop" else within).add(kind[terms[1]])
            elif word in cleaned and entry.positive:
                cleaned[word].add(kind[terms[0]])
        cut |= {kind[atom[1]] for atom in problem.goal.atoms if atom[0] == "sliced"}
    standing = set().union(*furniture.values())
    return Vocabulary(
        {room: tuple(sorted(found)) for room, found in sorted(furniture.items())},
        frozenset(on & standing),
        frozenset(kind for kind in within & standing if table[kind] & Can.CONTAINER),
        tuple(sorted(things)),
        frozenset(cut),
        {word: frozenset(kinds & standing) for word, kinds in cleaned.items()},
    )


class _Draft:
    """One activity that is being written."""

    def __init__(self, name: str, rng: np.random.Generator) -> None:
        self.name, self.rng = name, rng
        self.words = vocabulary()
        self.objects: dict[str, int] = {_AGENT: 1, _FLOOR: 1}
        self.init: list[str] = [f"(onfloor {_AGENT}_1 {_FLOOR}_1)"]
        self.goal: list[str] = []

    def draw(self, options: tuple[str, ...] | list[str]) -> str:
        return options[int(self.rng.integers(len(options)))]

    def write(self) -> str:
        places = self._furnish()
        for kind in self._kinds():
            self._thing(kind, places)
        for place in places:
            self._clean(place)
        objects = [
            f"    {' '.join(f'{kind}_{n + 1}' for n in range(count))} - {kind}"
            for kind, count in self.objects.items()
        ]
        return "\n".join(
            [
                f"(define (problem {self.name})",
                "  (:domain igibson)",
                "  (:objects",
                *objects,
                "  )",
                "  (:init",
                *(f"    {line}" for line in self.init),
                "  )",
                "  (:goal (and",
                *(f"    {line}" for line in self.goal),
                "  ))",
                ")\n",
            ]
        )

    def _furnish(self) -> list[str]:
        """A room with up to three pieces of furniture of which something can be made use of."""
        useful = self.words.supports | self.words.containers
        rooms = {
            room: [kind for kind in kinds if kind in useful]
            for room, kinds in self.words.furniture.items()
        }
        room = self.draw([room for room, kinds in rooms.items() if len(kinds) > 1])
        order = self.rng.permutation(len(rooms[room]))
        places = [rooms[room][int(place)] for place in order[: int(self.rng.integers(2, 4))]]
        self.init += [f"(inroom {_FLOOR}_1 {room})"]
        for place in places:
            self.objects[place] = 1
            self.init.append(f"(inroom {place}_1 {room})")
        return places

    def _kinds(self) -> list[str]:
        order = self.rng.permutation(len(self.words.things))
        return [self.words.things[int(place)] for place in order[: int(self.rng.integers(1, 4))]]

    def _relation(self, place: str) -> str:
        both = place in self.words.supports and place in self.words.containers
        if both:
            return self.draw(["ontop", "inside"])
        return "ontop" if place in self.words.supports else "inside"

    def _thing(self, kind: str, places: list[str]) -> None:
        """One to three of a kind: where they are, and where all of them belong."""
        count = self.objects[kind] = int(self.rng.integers(1, 4))
        target = self.draw(places)
        relation = self._relation(target)
        for number in range(1, count + 1):
            start = self.draw([place for place in (*places, _FLOOR) if place != target])
            word = "onfloor" if start == _FLOOR else self._relation(start)
            self.init.append(f"({word} {kind}_{number} {start}_1)")
        variable = f"?{kind}"
        self.goal.append(f"(forall ({variable} - {kind}) ({relation} {variable} ?{target}_1))")
        if kind in self.words.cut and self.rng.random() < 0.5:
            self.goal.append(f"(forall ({variable} - {kind}) (sliced {variable}))")

    def _clean(self, place: str) -> None:
        for word, kinds in self.words.cleaned.items():
            if place in kinds and self.rng.random() < 0.3:
                self.init.append(f"({word} {place}_1)")
                self.goal.append(f"(not ({word} ?{place}_1))")


@cache
def generated(seed: int, number: int) -> str:
    """The text of a generated activity; the same for the same seed and number.

    >>> generated(0, 0) == generated(0, 0) != generated(0, 1)
    True
    """
    name = f"generated_{seed}_{number}"
    for attempt in range(_TRIES):
        rng = np.random.default_rng((seed, number, attempt))
        text = _Draft(name, rng).write()
        try:
            instance = sample(read_activity(text, name))
        except ClframeError:
            continue  # such as a thing that cannot lie where it was put
        tracker = GoalTracker(instance.household)
        if tracker.score(tracker.truth(instance.start))[0] == 1.0:
            continue
        if plan(instance, _SECONDS).score == 1.0:
            return text
    raise SettingError(
        f"no solvable activity was drawn in {_TRIES} tries for stream.activity_seed={seed}: choose "
        "another one"
    )
