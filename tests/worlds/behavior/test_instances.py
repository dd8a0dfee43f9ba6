"""Starts of activities, and what is said of those that cannot be met."""

from __future__ import annotations

import pytest

from clframe.errors import UnknownNameError
from clframe.worlds.bddl import BDDLError
from clframe.worlds.behavior.corpus import activities, activity_text, load_activity, read_activity
from clframe.worlds.behavior.facts import fact, literals
from clframe.worlds.behavior.faults import ActivityError
from clframe.worlds.behavior.planner.search import require
from clframe.worlds.behavior.sampling import sample

TEXT = """(define (problem p) (:domain igibson)
(:objects agent.n.01_1 - agent.n.01 floor.n.01_1 - floor.n.01 table.n.02_1 - table.n.02
 apple.n.01_1 - apple.n.01 {objects})
(:init (inroom floor.n.01_1 kitchen) (inroom table.n.02_1 kitchen)
 (onfloor agent.n.01_1 floor.n.01_1)
 {init})
(:goal (and
 {goal})))"""


def text(
    init: str = "(ontop apple.n.01_1 table.n.02_1)",
    objects: str = "",
    goal: str = "(onfloor apple.n.01_1 floor.n.01_1)",
) -> str:
    return TEXT.format(objects=objects, init=init, goal=goal)


@pytest.mark.parametrize("corpus", ["b100", "b1k"])
def test_initial_conditions_hold_and_seeds_decide(corpus: str) -> None:
    for name in activities(corpus)[::20]:
        problem = load_activity(corpus, name)
        first, again, other = sample(problem, 3), sample(problem, 3), sample(problem, 4)
        assert first.start.save() == again.start.save()
        assert first.start.position != other.start.position
        for entry in problem.init_literals:
            predicate, *names = entry.literal
            if predicate == "inroom":
                household = first.household
                slot = household.index[names[0]]
                area = household.areas[slot if household.floor[slot] else first.start.parent[slot]]
                assert area.room == names[1]
            elif predicate not in ("future", "insource"):
                assert fact(first.household, entry.literal)(first.start) == entry.positive
        listed = literals(first.household, first.start)
        placed = {"ontop", "onfloor", "inside", "under", "covered", "filled", "frozen", "stained"}
        wanted = {literal for literal in problem.init if literal[0] in placed}
        assert wanted <= listed


def test_the_scene_brings_what_the_goal_needs_and_nothing_offers() -> None:
    tea = sample(load_activity("b100", "making_tea")).household
    assert [name.rsplit(".n.", 1)[0] for name in tea.things.brought] == ["sink"]
    assert sample(load_activity("b100", "sorting_mail")).household.things.brought == ()


@pytest.mark.parametrize(
    ("changes", "place", "sentence"),
    [
        ({"objects": "aple.n.01_1 - aple.n.01", "init": "(ontop aple.n.01_1 table.n.02_1)"},
         "6:2", "did you mean 'apple.n.01'"),
        ({"init": ""}, "7:8", "No literal says where 'apple.n.01_1' is"),
        ({"init": "(inside apple.n.01_1 table.n.02_1)"}, "6:2", "'table.n.02_1' is no container"),
        ({"init": "(ontop apple.n.01_1 apple.n.01_1)"}, "6:2", "rests on itself"),
        ({"init": "(ontop apple.n.01_1 table.n.02_1) (inroom apple.n.01_1 kitchen)"},
         "6:36", "is no furniture"),
        ({"init": "(ontop apple.n.01_1 table.n.02_1) (open apple.n.01_1)"},
         "6:36", "cannot be opened"),
        ({"init": "(not (ontop apple.n.01_1 table.n.02_1)) (onfloor apple.n.01_1 floor.n.01_1)"},
         "6:2", "cannot be sampled"),
        ({"init": "(nextto apple.n.01_1 table.n.02_1)"}, "6:2", "'nextto' cannot be sampled"),
        ({"init": "(ontop apple.n.01_1 table.n.02_1) (onfloor apple.n.01_1 floor.n.01_2)",
          "objects": "floor.n.01_2 - floor.n.01"}, "6:36", "in which room 'floor.n.01_2' is"),
        ({"init": "(ontop apple.n.01_1 table.n.02_1) (onfloor apple.n.01_1 floor.n.01_2)"
          " (inroom floor.n.01_2 bedroom)", "objects": "floor.n.01_2 - floor.n.01"},
         "6:36", "(onfloor apple.n.01_1 floor.n.01_2) cannot hold together"),
        ({"init": "(ontop apple.n.01_1 table.n.02_1) (inroom table.n.02_1 kitchn)"},
         "6:36", "did you mean 'kitchen'"),
    ],
)  # fmt: skip
def test_what_cannot_be_met_is_said_in_one_sentence_with_its_place(
    changes: dict[str, str], place: str, sentence: str
) -> None:
    with pytest.raises(ActivityError) as caught:
        sample(read_activity(text(**changes), "mine.bddl"))
    message = str(caught.value)
    assert message.startswith(f"mine.bddl:{place}: ")
    assert sentence in message
    assert "\n" not in message


def test_a_goal_that_no_primitive_reaches() -> None:
    goal = "(onfloor apple.n.01_1 floor.n.01_1)\n (inside table.n.02_1 apple.n.01_1)"
    instance = sample(read_activity(text(goal=goal), "mine.bddl"))
    with pytest.raises(ActivityError, match=r"^mine.bddl:9:2: No primitive reaches \(inside table"):
        require(instance, seconds=2.0)


def test_names_that_do_not_exist() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'making_tea'"):
        activity_text("b100", "making_te")
    with pytest.raises(UnknownNameError, match="known: b100, b1k"):
        activities("behaviour")
    with pytest.raises(BDDLError, match=r"^mine\.bddl:1:"):
        read_activity("(define", "mine.bddl")
