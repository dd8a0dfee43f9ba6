"""Whether a generated task is sound: placeable, not yet done, and solvable."""

from __future__ import annotations

from itertools import combinations
from math import dist

from clframe.worlds.bddl.errors import BDDLError
from clframe.worlds.bddl.generate.object_catalog import Catalog
from clframe.worlds.bddl.generate.world import World, solve
from clframe.worlds.bddl.problem import Problem


def task_problems(problem: Problem, catalog: Catalog) -> list[str]:
    """What is wrong with a task, as sentences; nothing if it is sound."""
    try:
        world = World(problem, catalog)
    except BDDLError as error:
        return [error.sentence]
    problems = _crowding(problem, world, catalog)
    contents: dict[str, list[str]] = {}
    for name, place in world.start.at:
        contents.setdefault(place, []).append(name)
    for place, names in contents.items():
        if len(names) > world.places[place].capacity:
            problems.append(f"{place} holds {len(names)} objects, more than it has room for.")
    state = world.literals(world.start)
    already = sorted(" ".join(atom) for atom in problem.goal.atoms & state)
    if already:
        problems.append(f"Part of the goal holds at the start: {'; '.join(already)}.")
    if solve(problem, catalog) is None:
        problems.append("No plan reaches the goal by the affordances of its objects.")
    return problems


def _crowding(problem: Problem, world: World, catalog: Catalog) -> list[str]:
    """Things on the workspace that stick out of it or stand too close to each other."""
    rectangles = {r.full_name: r.ranges[0] for r in problem.regions if r.ranges}
    standing: list[tuple[str, tuple[float, float], float]] = []
    problems = []
    arena = catalog.arena_of(problem.name)
    for literal in problem.init:
        box = rectangles.get(literal[-1])
        if literal[0] != "on" or box is None or literal[1] not in world.categories:
            continue
        center = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
        standing.append((literal[1], center, world.categories[literal[1]].radius))
        if arena and not (
            arena.area[0] <= box[0]
            and arena.area[1] <= box[1]
            and box[2] <= arena.area[2]
            and box[3] <= arena.area[3]
        ):
            problems.append(f"{literal[1]} starts outside the workspace.")
    for (one, center, radius), (other, other_center, other_radius) in combinations(standing, 2):
        if dist(center, other_center) < radius + other_radius:
            problems.append(f"{one} and {other} start too close to each other.")
    return problems
