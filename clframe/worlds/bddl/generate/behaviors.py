"""Behavior templates: from what a scene affords to instructions and goals.

LIBERO (Liu et al. 2023, section 3.1) takes templates such as "open ..." and "put ... on ..." from
recorded human activity and fills them with what a scene holds; these are the templates its tasks
use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations

from clframe.worlds.bddl.generate.scene_template import SIDES, Scene
from clframe.worlds.bddl.syntax import Literal


@dataclass(frozen=True)
class Behavior:
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


def simple_behaviors(scene: Scene) -> list[Behavior]:
    """Everything that can be asked for in one step."""
    behaviors = []
    for placing in _placings(scene):
        interest = (placing.name, placing.place)
        behaviors.append(Behavior(placing.request, (placing.goal,), interest))
    for part, words in _parts(scene):
        verb = "close" if ("open", part) in scene.init else "open"
        behaviors.append(Behavior(f"{verb} {words}", ((verb, part),), (part,)))
    for device, words in _devices(scene):
        running = ("turnon", device) in scene.init
        verb, predicate = ("turn off", "turnoff") if running else ("turn on", "turnon")
        behaviors.append(Behavior(f"{verb} {words}", ((predicate, device),), (device,)))
    return _unambiguous(behaviors)


def long_behaviors(scene: Scene) -> list[Behavior]:
    """What takes two or more steps, each of which the goal demands."""
    placings = list(_placings(scene))
    behaviors = []
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
            behaviors.append(Behavior(sentence, goal, interest))
        for device, words in _devices(scene):
            if placing.place.startswith(device) and ("turnon", device) not in scene.init:
                sentence = f"turn on {words} and put {placing.words} on it"
                behaviors.append(Behavior(sentence, (("turnon", device), placing.goal), interest))
    for one, other in combinations(placings, 2):
        behaviors.extend(_pair(scene, one, other))
    behaviors.extend(_stacks(placings))
    return _unambiguous(behaviors)


def _unambiguous(behaviors: list[Behavior]) -> list[Behavior]:
    """Those whose instruction means one goal only."""
    uses = Counter(behavior.language for behavior in behaviors)
    return [behavior for behavior in behaviors if uses[behavior.language] == 1]


def _pair(scene: Scene, one: _Placing, other: _Placing) -> Iterator[Behavior]:
    """Two placings in one instruction, if neither is in the other's way."""
    if one.name == other.name or {one.place, other.place} & {one.name, other.name}:
        return
    goal = (one.goal, other.goal)
    if one.place != other.place:
        if one.part is None and other.part is None:
            sentence = f"{one.request} and {other.request}"
            yield Behavior(sentence, goal, (one.name, one.place, other.name, other.place))
    elif _capacity(scene, one.place) >= 2:
        sentence = f"put both {one.words} and {other.words} {one.relation} {one.place_words}"
        yield Behavior(sentence, goal, (one.name, other.name, one.place))


def _stacks(placings: list[_Placing]) -> Iterator[Behavior]:
    """One object on another, and that one in a container."""
    for upper, lower in permutations(placings, 2):
        if upper.place == lower.name and lower.relation == "in" and lower.part is None:
            sentence = f"stack {upper.words} on {lower.words} and place them in {lower.place_words}"
            interest = (upper.name, lower.name, lower.place)
            yield Behavior(sentence, (upper.goal, lower.goal), interest)


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
    parts = []
    for name in scene.fixtures:
        if name == scene.arena.workspace:
            continue
        category = scene.category(name)
        if category.door:
            parts.append((name, f"the {category.words}"))
        for site_name, site in category.sites.items():
            if site.door == "site":
                parts.append((f"{name}_{site_name}", site.words))
    return parts


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
    if len(same) == 2 and all(other in scene.centers for other in same):
        left, right = sorted(same, key=lambda other: scene.centers[other][1])
        if scene.centers[right][1] - scene.centers[left][1] >= 0.1:
            return f"the {'left' if name == left else 'right'} {words}"
    return None
