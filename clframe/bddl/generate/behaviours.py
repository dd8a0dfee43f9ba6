"""Behaviour templates: from what a scene affords to instructions and goals.

LIBERO (Liu et al. 2023, section 3.1) takes templates such as "open ..." and "put ... on ..." from
recorded human activity and fills them with what a scene holds; these are the templates its tasks
use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations

from clframe.bddl.generate.scene import SIDES, Scene
from clframe.bddl.syntax import Literal


@dataclass(frozen=True)
class Behaviour:
    """An instruction, the goal it means, and what it is about."""

    language: str
    goal: tuple[Literal, ...]
    interest: tuple[str, ...]


@dataclass(frozen=True)
class _Placing:
    """An object put to a place."""

    name: str
    words: str
    relation: str
    place: str
    place_words: str
    part: str | None = None
    preposition: str | None = None

    @property
    def request(self) -> str:
        return f"put {self.words} {self.preposition or self.relation} {self.place_words}"

    @property
    def goal(self) -> Literal:
        return (self.relation, self.name, self.place)


def simple_behaviours(scene: Scene) -> list[Behaviour]:
    """Everything that can be asked for in one step."""
    found = []
    for placing in _placings(scene):
        interest = (placing.name, placing.place)
        found.append(Behaviour(placing.request, (placing.goal,), interest))
    for part, words in _parts(scene):
        verb = "close" if ("open", part) in scene.init else "open"
        found.append(Behaviour(f"{verb} {words}", ((verb, part),), (part,)))
    for device, words in _devices(scene):
        running = ("turnon", device) in scene.init
        verb, predicate = ("turn off", "turnoff") if running else ("turn on", "turnon")
        found.append(Behaviour(f"{verb} {words}", ((predicate, device),), (device,)))
    return _unambiguous(found)


def long_behaviours(scene: Scene) -> list[Behaviour]:
    """What takes two or more steps, each of which the goal demands."""
    placings = list(_placings(scene))
    found = []
    for placing in placings:
        interest = (placing.name, placing.place)
        if placing.part is not None:
            _, part_words = next(pair for pair in _parts(scene) if pair[0] == placing.part)
            if ("open", placing.part) in scene.init:
                sentence = f"put {placing.words} in {placing.place_words} and close it"
                goal: tuple[Literal, ...] = (placing.goal, ("close", placing.part))
            else:
                sentence = f"open {part_words} and put {placing.words} in it"
                goal = (("open", placing.part), placing.goal)
            found.append(Behaviour(sentence, goal, interest))
        for device, words in _devices(scene):
            if placing.place.startswith(device) and ("turnon", device) not in scene.init:
                sentence = f"turn on {words} and put {placing.words} on it"
                found.append(Behaviour(sentence, (("turnon", device), placing.goal), interest))
    for one, other in combinations(placings, 2):
        found.extend(_pair(scene, one, other))
    found.extend(_stacks(placings))
    return _unambiguous(found)


def _unambiguous(behaviours: list[Behaviour]) -> list[Behaviour]:
    """Those whose instruction means one goal only."""
    uses = Counter(behaviour.language for behaviour in behaviours)
    return [behaviour for behaviour in behaviours if uses[behaviour.language] == 1]


def _pair(scene: Scene, one: _Placing, other: _Placing) -> Iterator[Behaviour]:
    """Two placings in one instruction, if neither is in the other's way."""
    if one.name == other.name or {one.place, other.place} & {one.name, other.name}:
        return
    goal = (one.goal, other.goal)
    if one.place != other.place:
        if one.part is None and other.part is None:
            sentence = f"{one.request} and {other.request}"
            yield Behaviour(sentence, goal, (one.name, one.place, other.name, other.place))
    elif _capacity(scene, one.place) >= 2:
        sentence = f"put both {one.words} and {other.words} {one.relation} {one.place_words}"
        yield Behaviour(sentence, goal, (one.name, other.name, one.place))


def _stacks(placings: list[_Placing]) -> Iterator[Behaviour]:
    """One object on another, and that one in a container."""
    for upper, lower in permutations(placings, 2):
        if upper.place == lower.name and lower.relation == "in" and lower.part is None:
            sentence = f"stack {upper.words} on {lower.words} and place them in {lower.place_words}"
            interest = (upper.name, lower.name, lower.place)
            yield Behaviour(sentence, (upper.goal, lower.goal), interest)


def _placings(scene: Scene) -> Iterator[_Placing]:
    """Every object with every other place that accepts it."""
    at = {literal[1]: literal[2] for literal in scene.init if len(literal) == 3}
    occupied = set(at.values())
    for name in scene.objects:
        words = _words(scene, name)
        if words is None or name in occupied or scene.category(name).kind == "receiver":
            continue
        kind = scene.category(name).kind
        for other in scene.objects:
            other_words = _words(scene, other)
            accepts = kind in scene.category(other).accepts
            if other != name and accepts and other_words and other not in occupied:
                yield _Placing(name, words, "on", other, other_words)
        for region in scene.regions.values():
            full = region.full_name
            if region.ranges:
                yield from _beside(scene, name, words, full)
                continue
            site = scene.category(region.target).sites[region.name]
            if kind in site.accepts and at[name] != full:
                part = {"site": full, "fixture": region.target, None: None}[site.door]
                yield _Placing(name, words, site.relation, full, site.words, part)


def _beside(scene: Scene, name: str, words: str, region: str) -> Iterator[_Placing]:
    """A free rectangle at a side of something, for an object other than that."""
    short = scene.regions[region].name
    for side in SIDES:
        reference = short.removesuffix(f"_{side}_region")
        if reference in (short, name):
            continue
        reference_words = _words(scene, reference)
        if reference_words:
            place = f"the {side} of {reference_words}"
            yield _Placing(name, words, "on", region, place, preposition="to")


def _parts(scene: Scene) -> list[tuple[str, str]]:
    """What can be opened and closed, with its words."""
    found = []
    for name in scene.fixtures:
        if name == scene.arena.workspace:
            continue
        category = scene.category(name)
        if category.door:
            found.append((name, f"the {category.words}"))
        for site, own in category.sites.items():
            if own.door == "site":
                found.append((f"{name}_{site}", own.words))
    return found


def _devices(scene: Scene) -> list[tuple[str, str]]:
    names = [name for name in scene.fixtures if name != scene.arena.workspace]
    return [
        (name, f"the {scene.category(name).words}") for name in names if scene.category(name).device
    ]


def _capacity(scene: Scene, place: str) -> int:
    region = scene.regions.get(place)
    if region is None or region.ranges:
        return 1
    return scene.category(region.target).sites[region.name].capacity


def _words(scene: Scene, name: str) -> str | None:
    """Words that mean this thing and no other in the scene, or None if there are none."""
    words = scene.category(name).words
    same = [other for other in scene.objects if scene.category(other).words == words]
    if len(same) <= 1:
        return f"the {words}"
    if len(same) == 2 and all(other in scene.centres for other in same):
        left, right = sorted(same, key=lambda other: scene.centres[other][1])
        if scene.centres[right][1] - scene.centres[left][1] >= 0.1:
            return f"the {'left' if name == left else 'right'} {words}"
    return None
