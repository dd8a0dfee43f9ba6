"""Whether a generated task is sound: placeable, not yet done, and solvable."""

from __future__ import annotations

from itertools import combinations
from math import dist

from clframe.bddl.errors import BDDLError
from clframe.bddl.generate.catalogue import Catalogue
from clframe.bddl.generate.world import World, solve
from clframe.bddl.problem import Problem


def task_problems(problem: Problem, catalogue: Catalogue) -> list[str]:
    """What is wrong with a task, as sentences; nothing if it is sound."""
    try:
        world = World(problem, catalogue)
    except BDDLError as error:
        return [error.sentence]
    found = _crowding(problem, world, catalogue)
    held: dict[str, list[str]] = {}
    for name, place in world.start.at:
        held.setdefault(place, []).append(name)
    for place, names in held.items():
        if len(names) > world.places[place].capacity:
            found.append(f"{place} holds {len(names)} objects, more than it has room for.")
    state = world.literals(world.start)
    already = sorted(" ".join(atom) for atom in problem.goal.atoms & state)
    if already:
        found.append(f"Part of the goal holds at the start: {'; '.join(already)}.")
    if solve(problem, catalogue) is None:
        found.append("No plan reaches the goal by the affordances of its objects.")
    return found


def _crowding(problem: Problem, world: World, catalogue: Catalogue) -> list[str]:
    """Things on the workspace that stick out of it or stand too close to each other."""
    rectangles = {r.full_name: r.ranges[0] for r in problem.regions if r.ranges}
    standing: list[tuple[str, tuple[float, float], float]] = []
    found = []
    arena = catalogue.arena_of(problem.name)
    for literal in problem.init:
        box = rectangles.get(literal[-1])
        if literal[0] != "on" or box is None or literal[1] not in world.categories:
            continue
        centre = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
        standing.append((literal[1], centre, world.categories[literal[1]].radius))
        if arena and not (
            arena.area[0] <= box[0]
            and arena.area[1] <= box[1]
            and box[2] <= arena.area[2]
            and box[3] <= arena.area[3]
        ):
            found.append(f"{literal[1]} starts outside the workspace.")
    for (one, here, own), (other, there, its) in combinations(standing, 2):
        if dist(here, there) < own + its:
            found.append(f"{one} and {other} start too close to each other.")
    return found
