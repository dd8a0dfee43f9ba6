"""The structure of LIBERO's suites as generators of tasks.

- ``spatial``: two equal objects; where the wanted one stands is all that varies within a scene.
- ``object``: which object goes into the container; a new set of distractors for every task.
- ``goal``: one scene for ten tasks; only the goal varies.
- ``long``: goals of several steps, in all rooms (LIBERO-10).
- ``mixed``: any template in any room (LIBERO-90).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from clframe.errors import SettingError, UnknownNameError, nearest
from clframe.worlds.bddl.generate.behaviors import Behavior, long_behaviors, simple_behaviors
from clframe.worlds.bddl.generate.object_catalog import Catalog, shipped_catalog
from clframe.worlds.bddl.generate.scene_template import SIDES, NoRoomError, Scene
from clframe.worlds.bddl.generate.spatial import spatial_scene
from clframe.worlds.bddl.generate.validity import task_problems
from clframe.worlds.bddl.limits import Leniency
from clframe.worlds.bddl.parser import parse
from clframe.worlds.bddl.problem import Problem
from clframe.worlds.bddl.writer import write

# Scenes that may be drawn in a row without a new task before a suite counts as exhausted.
_MOST_IDLE_SCENES = 2_000
LARGEST_SUITE = 5_000
"""Most tasks in one suite; the smallest suite has some more distinct ones."""


@dataclass(frozen=True)
class Task:
    """A generated task: its name, which is also its file's, and its problem."""

    name: str
    problem: Problem


Draw = Callable[[Catalog, random.Random], Iterator[Problem]]


def generate_tasks(suite: str, n: int, seed: int = 0, catalog: Catalog | None = None) -> list[Task]:
    """Generate tasks of a suite, all valid, distinct and solvable; the same for the same seed.

    The first tasks of a longer list are those of a shorter one with the same seed.

    Raises:
        UnknownNameError: If there is no such suite.
        SettingError: If the number or the seed is out of range, or the suite has no more tasks.

    >>> [task.name for task in generate_tasks("object", 1, seed=0)]
    ['FLOOR_SCENE1_pick_up_the_butter_and_place_it_in_the_basket']
    """
    if suite not in SUITES:
        raise UnknownNameError(f"There is no suite {suite!r}; {nearest(suite, SUITES)}")
    if not 1 <= n <= LARGEST_SUITE:
        raise SettingError(f"n must be between 1 and {LARGEST_SUITE}, not {n}.")
    if seed < 0:
        raise SettingError(f"seed must be a whole number from 0 up, not {seed}.")
    catalog = catalog or shipped_catalog()
    rng = random.Random(f"{suite} {seed}")
    tasks: list[Task] = []
    seen: set[object] = set()
    scene = idle = 0
    while len(tasks) < n:
        fresh = 0
        for drawn in SUITES[suite](catalog, rng):
            identity = _identity(drawn)
            if identity in seen or task_problems(drawn, catalog):
                continue
            seen.add(identity)
            fresh += 1
            # Read back from its own text, so that what is returned is what a file would hold.
            problem = parse(write(drawn), lenient=Leniency.STRICT)
            tasks.append(Task(_name(problem, scene + 1, catalog), problem))
            if len(tasks) == n:
                break
        scene += fresh > 0
        idle = 0 if fresh else idle + 1
        if idle > _MOST_IDLE_SCENES:
            raise SettingError(f"The suite {suite!r} has no more than {len(tasks)} distinct tasks.")
    return tasks


def _identity(problem: Problem) -> object:
    """What makes two tasks the same: everything but where exactly rectangles are."""
    things = frozenset(problem.objects) | frozenset(problem.fixtures)
    return (problem.name, things, frozenset(problem.init), problem.goal.atoms, problem.language)


def _name(problem: Problem, scene: int, catalog: Catalog) -> str:
    """LIBERO's convention: arena, scene number, instruction."""
    arena = catalog.arena_of(problem.name)
    prefix = arena.prefix if arena else "SCENE"
    words = re.sub(r"[^a-z0-9]+", "_", problem.language or "").strip("_")
    return f"{prefix}_SCENE{scene}_{words}"[:200]  # file systems allow 255


def _spatial(catalog: Catalog, rng: random.Random) -> Iterator[Problem]:
    try:
        yield from spatial_scene(catalog, rng)
    except NoRoomError:
        return


def _object(catalog: Catalog, rng: random.Random) -> Iterator[Problem]:
    arena = catalog.arenas["floor"]
    receivers = [kind for kind in arena.objects if catalog.objects[kind].kind == "receiver"]
    others = [kind for kind in arena.objects if kind not in receivers]
    scene = Scene(arena, catalog, rng)
    receiver = scene.add_object(rng.choice(receivers))
    things = [scene.add_object(kind) for kind in rng.sample(others, 6)]
    try:
        for name in (receiver, *things):
            scene.stand(name)
    except NoRoomError:
        return
    target, category = things[0], scene.category(receiver)
    site = category.sites["contain_region"]
    place = f"{receiver}_contain_region"
    words = scene.category(target).words
    language = f"pick up the {words} and place it {site.relation} {site.words}"
    yield scene.problem(language, ((site.relation, target, place),), (target, receiver))


def _goal(catalog: Catalog, rng: random.Random) -> Iterator[Problem]:
    scene = _random_scene(catalog, rng, "table", fixtures=(2, 3), objects=(4, 4))
    if scene is not None:
        for behavior in _some(rng, scene, simple=8, long=2):
            yield scene.problem(behavior.language, behavior.goal, behavior.interest)


def _long(catalog: Catalog, rng: random.Random) -> Iterator[Problem]:
    scene = _any_room(catalog, rng)
    if scene is not None:
        for behavior in _some(rng, scene, simple=0, long=2):
            yield scene.problem(behavior.language, behavior.goal, behavior.interest)


def _mixed(catalog: Catalog, rng: random.Random) -> Iterator[Problem]:
    scene = _any_room(catalog, rng)
    if scene is not None:
        # LIBERO-90 has about three single-step tasks for each longer one.
        for behavior in _some(rng, scene, simple=3, long=1):
            yield scene.problem(behavior.language, behavior.goal, behavior.interest)


def _some(rng: random.Random, scene: Scene, simple: int, long: int) -> list[Behavior]:
    """Up to that many behaviors of a scene; what one sort lacks is not made up by the other."""
    ones, others = simple_behaviors(scene), long_behaviors(scene)
    return rng.sample(ones, min(simple, len(ones))) + rng.sample(others, min(long, len(others)))


def _any_room(catalog: Catalog, rng: random.Random) -> Scene | None:
    # The rooms in about the proportion of LIBERO-100.
    room = rng.choices(("kitchen", "living_room", "study"), (5, 3, 2))[0]
    if room == "living_room":
        return _random_scene(catalog, rng, room, fixtures=(0, 0), objects=(4, 6))
    if room == "study":
        return _random_scene(catalog, rng, room, fixtures=(1, 1), objects=(2, 4))
    return _random_scene(catalog, rng, room, fixtures=(1, 2), objects=(2, 5))


def _random_scene(
    catalog: Catalog,
    rng: random.Random,
    room: str,
    fixtures: tuple[int, int],
    objects: tuple[int, int],
) -> Scene | None:
    """A scene with random contents and random open drawers and running devices."""
    arena = catalog.arenas[room]
    scene = Scene(arena, catalog, rng)
    try:
        for kind in rng.sample(arena.fixtures, rng.randint(*fixtures)):
            scene.add_fixture(kind)
        kinds = rng.sample(arena.objects, rng.randint(*objects))
        if rng.random() < 0.3:
            kinds.append(rng.choice(kinds))  # two of one kind, distinguished by left and right
        for kind in kinds:
            scene.stand(scene.add_object(kind))
    except NoRoomError:
        return None
    for part, predicate in _changeable(scene):
        if rng.random() < 0.25:
            scene.hold(predicate, part)
    if scene.objects and rng.random() < 0.5:
        reference = rng.choice(sorted(scene.objects))
        scene.beside(reference, rng.choice(sorted(SIDES)), radius=0.06)
    return scene


def _changeable(scene: Scene) -> Iterator[tuple[str, str]]:
    """Parts that may be open and devices that may be on at the start."""
    for name in scene.fixtures:
        if name == scene.arena.workspace:
            continue
        category = scene.category(name)
        if category.door:
            yield name, "open"
        if category.device:
            yield name, "turnon"
        for site_name, site in category.sites.items():
            if site.door == "site":
                yield f"{name}_{site_name}", "open"


SUITES: dict[str, Draw] = {
    "spatial": _spatial,
    "object": _object,
    "goal": _goal,
    "long": _long,
    "mixed": _mixed,
}
