"""Generated tasks are valid, distinct, solvable, and the same for the same seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from clframe.errors import SettingError, UnknownNameError
from clframe.worlds import tabletop
from clframe.worlds.bddl import BDDLError, Leniency, Problem, parse, write
from clframe.worlds.bddl.generate import (
    SUITES,
    generate_tasks,
    shipped_catalog,
    solve,
    task_problems,
)
from clframe.worlds.bddl.generate.world import World

CATALOG = shipped_catalog()
LIBERO = sorted((Path(__file__).parents[2] / "data" / "bddl" / "libero").glob("*.bddl"))


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("suite", SUITES)
def test_many_tasks(suite: str, count: int) -> None:
    """Each is re-checked from its text, not by trusting the generator."""
    tasks = generate_tasks(suite, count, seed=0)
    assert len({task.name for task in tasks}) == count
    meanings = set()
    for task in tasks:
        problem = parse(write(task.problem), lenient=Leniency.STRICT)
        assert not problem.warnings
        assert not problem.goal.satisfied(problem.init)
        assert task_problems(problem, CATALOG) == []
        assert _replay(problem) == 1.0
        meanings.add(
            (frozenset(problem.objects), frozenset(problem.init), problem.goal, problem.language)
        )
    assert len(meanings) == count


def _replay(problem: Problem) -> float:
    """Carry out the plan on a plain set of literals and score what comes of it."""
    plan = solve(problem, CATALOG)
    assert plan
    world = World(problem, CATALOG)
    state = set(world.literals(world.start))
    for step in plan:
        verb, rest = step.split(" ", 1)
        if verb == "move":
            name, place = rest.split(" to ")
            state = {s for s in state if not (len(s) == 3 and s[1] == name)}
            state.add((world.places[place].relation, name, place))
        elif verb == "turn":
            way, device = rest.split(" ")
            state -= {("turnon", device), ("turnoff", device)}
            state.add((f"turn{way}", device))
        else:
            state -= {("open", rest), ("close", rest)}
            state.add((verb, rest))
    return problem.goal.score(state)


@pytest.mark.parametrize("suite", SUITES)
def test_deterministic_and_extendable(suite: str) -> None:
    ten = generate_tasks(suite, 10, seed=7)
    assert generate_tasks(suite, 25, seed=7)[:10] == ten
    assert generate_tasks(suite, 10, seed=8) != ten


def test_structure_of_the_suites() -> None:
    spatial = generate_tasks("spatial", 9, seed=0)
    assert len({tuple(task.problem.objects) for task in spatial}) == 1  # one scene
    assert len({task.problem.goal for task in spatial}) == 1  # one goal
    assert len({frozenset(task.problem.init) for task in spatial}) == 9  # other places
    goal = generate_tasks("goal", 8, seed=0)
    assert len({write(t.problem).split("(:obj_of")[0].split("(:regions")[1] for t in goal}) == 1
    assert len({task.problem.init for task in goal}) == 1
    assert len({task.problem.goal for task in goal}) == 8
    for task in generate_tasks("object", 20, seed=0):
        assert len(task.problem.objects) == 7
        assert len(task.problem.goal.atoms) == 1
    assert all(len(task.problem.goal.atoms) >= 2 for task in generate_tasks("long", 50, seed=0))
    assert {len(task.problem.goal.atoms) for task in generate_tasks("mixed", 50)} == {1, 2}


@pytest.mark.parametrize("path", LIBERO, ids=lambda path: path.stem[:60])
def test_published_tasks_are_solvable(path: Path) -> None:
    problem = parse(path)
    plan = solve(problem, CATALOG)
    assert plan
    assert _replay(problem) == 1.0


def test_all_130_published_tasks_are_solvable() -> None:
    paths = sorted((Path(tabletop.__path__[0]) / "data").rglob("*.bddl"))
    assert len(paths) == 130
    assert all(solve(parse(path), CATALOG) for path in paths)


SOUND = """(define (problem libero_kitchen_tabletop_manipulation) (:domain robosuite)
  (:regions (a (:target kitchen_table) (:ranges ((-0.02 -0.02 0.02 0.02))))
            (b (:target kitchen_table) (:ranges ((0.1 0.18 0.14 0.22))))
            (c (:target kitchen_table) (:ranges ((-0.01 -0.29 0.01 -0.27))))
            (top_region (:target white_cabinet_1)) (top_side (:target white_cabinet_1)))
  (:fixtures kitchen_table - kitchen_table white_cabinet_1 - white_cabinet)
  (:objects white_bowl_1 - white_bowl plate_1 - plate)
  (:init (on white_bowl_1 kitchen_table_a) (on plate_1 kitchen_table_b)
         (on white_cabinet_1 kitchen_table_c))
  (:goal (and (in white_bowl_1 white_cabinet_1_top_region) (close white_cabinet_1_top_region))))
"""


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("(and (in", "(and (close white_cabinet_1_top_region) (on", "No plan"),
        ("((0.1 0.18 0.14 0.22))", "((0.01 0.01 0.02 0.02))", "too close"),
        ("((0.1 0.18 0.14 0.22))", "((0.8 0.8 0.9 0.9))", "outside the workspace"),
        ("(on plate_1 kitchen_table_b)", "(on plate_1 white_bowl_1)", "cannot be on"),
        ("(on plate_1 kitchen_table_b)", "(on plate_1 kitchen_table_a)", "holds 2 objects"),
        ("(on plate_1 kitchen_table_b)", "", "nowhere"),
        ("(on plate_1 kitchen_table_b)",
         "(on plate_1 kitchen_table_b) (on plate_1 kitchen_table_a)", "two places"),
        ("plate_1 - plate", "plate_1 - saucer", "'saucer'"),
        ("(in white_bowl_1 white_cabinet_1_top_region) (close", "(close", "at the start"),
        ("(in white_bowl_1 white_cabinet_1_top_region)", "(in plate_1 white_cabinet_1_top_region)",
         "No plan"),
    ],
)  # fmt: skip
def test_unsound_tasks_are_reported(old: str, new: str, sentence: str) -> None:
    assert SOUND.count(old) == 1
    problems = task_problems(parse(SOUND.replace(old, new)), CATALOG)
    assert any(sentence in text for text in problems), problems


def test_a_plan_opens_and_closes() -> None:
    problem = parse(SOUND.replace("(and (in", "(and (on plate_1 kitchen_table_b) (in"))
    assert solve(problem, CATALOG) == [
        "open white_cabinet_1_top_region",
        "move white_bowl_1 to white_cabinet_1_top_region",
        "close white_cabinet_1_top_region",
    ]


def test_a_plan_clears_what_is_in_the_way() -> None:
    text = SOUND.replace("plate_1 - plate", "plate_1 - plate akita_black_bowl_1 - akita_black_bowl")
    text = text.replace("(:init", "(:init (on akita_black_bowl_1 plate_1)")
    goal = "(:goal (and (on white_bowl_1 plate_1))))\n"
    plan = solve(parse(text.split("(:goal")[0] + goal), CATALOG)
    assert plan is None  # no free rectangle to put the black bowl
    text = text.replace("(:regions", "(:regions (d (:target kitchen_table) (:ranges ((0 0 0 0))))")
    plan = solve(parse(text.split("(:goal")[0] + goal), CATALOG)
    assert plan == ["move akita_black_bowl_1 to kitchen_table_d", "move white_bowl_1 to plate_1"]


def test_wrong_settings() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'spatial'"):
        generate_tasks("spacial", 1)
    for n, seed in ((0, 0), (10**6, 0), (1, -1)):
        with pytest.raises(SettingError, match="must be"):
            generate_tasks("goal", n, seed)
    with pytest.raises(BDDLError, match="catalog"):
        solve(parse(SOUND.replace("- plate", "- saucer")), CATALOG)
