"""What the scene adds to the things that an activity names, as any home has it."""

from __future__ import annotations

from clframe.errors import nearest
from clframe.worlds.bddl import Problem
from clframe.worlds.bddl.syntax import InitLiteral
from clframe.worlds.behavior.categories import Can, categories, rooms
from clframe.worlds.behavior.faults import at_literal, at_object
from clframe.worlds.behavior.household import AGENT, Things

_FLOOR = "floor.n.01"
# What a goal needs, the abilities that would do, and what a home has for it; fixtures come into the
# agent's room, other things onto its floor.
_HEAT = Can.HEATS_INSIDE | Can.HEATS_ON_TOP
_NEEDS: tuple[tuple[frozenset[str], int, str], ...] = (
    (frozenset({"cooked", "hot"}), _HEAT, "stove.n.01"),
    (frozenset({"frozen"}), Can.COOLS, "electric_refrigerator.n.01"),
    (frozenset({"soaked", "stained", "saturated", "covered"}), Can.TAP, "sink.n.01"),
    (frozenset({"dusty", "stained", "covered"}), Can.CLEANER, "rag.n.01"),
    (frozenset({"sliced"}), Can.SLICER, "carving_knife.n.01"),
)
_PRODUCTS = {"cooked": 0, "melted": 0, "half": 4, "diced": 4}
_MARKS = (Can.PRESSES | Can.SANDS, "iron.n.04")


def check_categories(problem: Problem) -> None:
    """Refuse objects of a category that no published activity has."""
    table = categories()
    for name, category in problem.objects.items():
        if category not in table:
            hint = nearest(category, table)
            sentence = f"Nothing is known of the category {category!r} of {name!r}; {hint}"
            raise at_object(problem, name, sentence)
    if AGENT not in problem.objects.values():
        raise at_object(problem, AGENT, f"The activity names no agent ({AGENT}_1 - {AGENT}).")


def gather(problem: Problem) -> Things:
    """All things of an activity's household: its own, and what the scene brings.

    A wildcard (``cabinet.n.01_*``) stands for one more piece of furniture. Every room has a floor.
    Of heat, cold, water, a cloth and a blade the scene brings what the goal needs and no named
    thing offers.
    """
    check_categories(problem)
    types = dict(problem.objects)
    fixed = _rooms(problem)
    sources = [
        (entry.literal[1], entry.literal[2])
        for entry in problem.init_literals
        if entry.positive and entry.literal[0] == "insource"
    ]
    brought: list[str] = []
    table = categories()
    for room in dict.fromkeys(fixed.values()):
        named = [name for name, where in fixed.items() if where == room]
        if not any(table[types[name]] & Can.FLOOR for name in named):
            name = _new_name(types, _FLOOR)
            types[name], fixed[name] = _FLOOR, room
            brought.append(name)
    home = _agent_room(problem, fixed)
    for category in _missing(problem, types):
        name = _new_name(types, category)
        types[name] = category
        brought.append(name)
        if table[category] & Can.FIXTURE:
            fixed[name] = home
    return Things(types, fixed, sources, tuple(brought))


def _rooms(problem: Problem) -> dict[str, str]:
    """What is part of a room, and of which."""
    table = categories()
    fixed: dict[str, str] = {}
    for entry in problem.init_literals:
        if entry.literal[0] != "inroom":
            continue
        _, name, room = entry.literal
        if not entry.positive:
            raise at_literal(problem, entry, f"Where {name!r} is not says nothing of where it is.")
        if room not in rooms():
            sentence = f"There is no kind of room {room!r}; {nearest(room, rooms())}"
            raise at_literal(problem, entry, sentence)
        if not table[problem.objects[name]] & (Can.FIXTURE | Can.FLOOR):
            sentence = f"{name!r} is no furniture, so no scene has it in a room ({room})."
            raise at_literal(problem, entry, sentence)
        if fixed.get(name, room) != room:
            raise at_literal(problem, entry, f"{name!r} cannot be in {room} and {fixed[name]}.")
        fixed[name] = room
    for name, category in problem.objects.items():
        if table[category] & Can.FLOOR and name not in fixed:
            raise at_object(problem, name, f"No literal says in which room {name!r} is.")
    return fixed


def agent_literal(problem: Problem) -> InitLiteral | None:
    """The literal of ``:init`` that says where the agent starts."""
    for entry in problem.init_literals:
        if entry.literal[0] in ("onfloor", "ontop") and entry.literal[1].startswith(AGENT):
            return entry
    return None


def _agent_room(problem: Problem, fixed: dict[str, str]) -> str:
    entry = agent_literal(problem)
    if entry is None:
        raise at_object(problem, f"{AGENT}_1", "No literal says on which floor the agent starts.")
    if entry.literal[2] not in fixed:
        sentence = f"{entry.literal[2]!r} is in no room, so the agent cannot start there."
        raise at_literal(problem, entry, sentence)
    return fixed[entry.literal[2]]


def _missing(problem: Problem, types: dict[str, str]) -> list[str]:
    table = categories()
    wanted = {atom[0] for atom in problem.goal.atoms}
    offered = 0
    for category in types.values():
        offered |= table[category]
    kinds = {part for category in types.values() for part in category.split("__")[:-1]}
    needed = [(ability, category) for words, ability, category in _NEEDS if wanted & words]
    needed += [_NEEDS[place][1:] for kind, place in _PRODUCTS.items() if kind in kinds]
    if any(table[category] & Can.MARK for category in types.values()):
        needed.append(_MARKS)
    found: list[str] = []
    for ability, category in needed:
        if not offered & ability:
            found.append(category)
            offered |= table[category]
    return found


def _new_name(types: dict[str, str], category: str) -> str:
    number = 1
    while f"{category}_{number}" in types:
        number += 1
    return f"{category}_{number}"
