"""Households: places, states, heat and matter, against values worked out by hand."""

from __future__ import annotations

import math

import pytest

from clframe.worlds.bddl import parse
from clframe.worlds.behavior import heat
from clframe.worlds.behavior.corpus import activities, load_activity
from clframe.worlds.behavior.facts import fact, literals
from clframe.worlds.behavior.places import next_to
from clframe.worlds.behavior.sampling import Instance, sample
from clframe.worlds.behavior.state import State
from clframe.worlds.behavior.verbs import PRIMITIVES, Verb, act, possible

KITCHEN = """(define (problem kitchen) (:domain {domain})
  (:objects agent.n.01_1 - agent.n.01 floor.n.01_1 - floor.n.01 table.n.02_1 - table.n.02
    oven.n.01_1 - oven.n.01 electric_refrigerator.n.01_1 - electric_refrigerator.n.01
    sink.n.01_1 - sink.n.01 apple.n.01_1 apple.n.01_2 - apple.n.01 plate.n.04_1 - plate.n.04
    knife.n.01_1 - knife.n.01 rag.n.01_1 - rag.n.01 {objects})
  (:init (inroom floor.n.01_1 kitchen) (inroom table.n.02_1 kitchen) (inroom oven.n.01_1 kitchen)
    (inroom electric_refrigerator.n.01_1 kitchen) (inroom sink.n.01_1 kitchen)
    ({floor} agent.n.01_1 floor.n.01_1) (ontop apple.n.01_1 plate.n.04_1)
    (ontop plate.n.04_1 table.n.02_1) ({floor} apple.n.01_2 floor.n.01_1)
    (ontop knife.n.01_1 table.n.02_1) (ontop rag.n.01_1 table.n.02_1) {init})
  (:goal (and {goal})))"""


def kitchen(
    goal: str = "(inside apple.n.01_1 oven.n.01_1)",
    init: str = "",
    objects: str = "",
    domain: str = "igibson",
) -> Instance:
    floor = "onfloor" if domain == "igibson" else "ontop"
    text = KITCHEN.format(goal=goal, init=init, objects=objects, domain=domain, floor=floor)
    return sample(parse(text))


class Hands:
    """Does primitives by name and insists that they are possible."""

    def __init__(self, instance: Instance) -> None:
        self.household = instance.household
        self.state = instance.start.copy()

    def do(self, verb: Verb, name: str) -> None:
        refusal = act(self.household, self.state, verb, self.household.index[name])
        assert refusal == "", f"{verb.name} {name}: {refusal}"

    def refused(self, verb: Verb, name: str) -> str:
        return PRIMITIVES[verb].check(self.household, self.state, self.household.index[name])

    def holds(self, *literal: str) -> bool:
        return fact(self.household, literal)(self.state)

    def fetch(self, name: str, verb: Verb, target: str) -> None:
        self.do(Verb.NAVIGATE_TO, name)
        self.do(Verb.GRASP, name)
        self.do(Verb.NAVIGATE_TO, target)
        self.do(verb, target)


APPLE, OTHER, PLATE = "apple.n.01_1", "apple.n.01_2", "plate.n.04_1"
OVEN, FRIDGE, SINK = "oven.n.01_1", "electric_refrigerator.n.01_1", "sink.n.01_1"


def test_what_is_carried_takes_along_what_is_on_it_and_inside_is_transitive() -> None:
    hands = Hands(kitchen())
    hands.do(Verb.NAVIGATE_TO, OVEN)
    assert hands.refused(Verb.PLACE_INSIDE, OVEN) == "it is closed"
    hands.do(Verb.OPEN, OVEN)
    hands.fetch(PLATE, Verb.PLACE_INSIDE, OVEN)
    assert hands.holds("ontop", APPLE, PLATE)
    assert hands.holds("inside", PLATE, OVEN)
    assert hands.holds("inside", APPLE, OVEN)
    slots = hands.household.index
    apple, oven = (hands.state.position[slots[name]] for name in (APPLE, OVEN))
    assert math.dist(apple[:2], oven[:2]) < 0.5
    hands.do(Verb.CLOSE, OVEN)
    assert hands.refused(Verb.GRASP, APPLE) == "it is in a closed container"


def test_two_hands_and_the_acting_one() -> None:
    hands = Hands(kitchen())
    hands.do(Verb.NAVIGATE_TO, "table.n.02_1")
    hands.do(Verb.GRASP, "knife.n.01_1")
    hands.do(Verb.GRASP, APPLE)
    assert hands.refused(Verb.GRASP, PLATE) == "no hand is free"
    assert hands.refused(Verb.GRASP, APPLE) == "it is in a hand"
    hands.do(Verb.GRASP, "knife.n.01_1")  # from now on the knife's hand acts
    hands.do(Verb.PLACE_ON_TOP, "table.n.02_1")
    assert hands.holds("ontop", "knife.n.01_1", "table.n.02_1")
    hands.do(Verb.RELEASE, APPLE)
    assert hands.holds("onfloor", APPLE, "floor.n.01_1")


def test_out_of_reach_and_refusals_take_time() -> None:
    hands = Hands(kitchen())
    hands.state.base = (-50.0, 0.0)
    assert hands.refused(Verb.GRASP, APPLE) == "it is out of reach"
    before = hands.state.time
    assert act(hands.household, hands.state, Verb.GRASP, hands.household.index[APPLE])
    assert hands.state.time == before + 1.0


def test_next_to_is_a_sixth_of_the_mean_extent() -> None:
    hands = Hands(kitchen())
    hands.fetch(OTHER, Verb.PLACE_NEXT_TO, PLATE)
    assert hands.holds("nextto", OTHER, PLATE)
    assert hands.holds("touching", OTHER, PLATE)
    slots, state = hands.household.index, hands.state
    first, second = slots[OTHER], slots[PLATE]
    # Boxes of 0.1 x 0.1 x 0.1 and 0.3 x 0.3 x 0.2: mean extents 0.1 and 0.8 / 3.
    limit = (0.1 + 0.8 / 3) / 6
    x, y, z = state.position[second]
    for gap, expected in ((limit - 1e-6, True), (limit + 1e-6, False)):
        state.position[first] = (x + 0.05 + 0.15 + gap, y, z)
        assert next_to(hands.household, state, first, second) is expected
        assert next_to(hands.household, state, second, first) is expected


def test_under_lies_on_the_floor_and_ends_when_taken() -> None:
    hands = Hands(kitchen())
    hands.fetch(APPLE, Verb.PLACE_UNDER, "table.n.02_1")
    assert hands.holds("under", APPLE, "table.n.02_1")
    assert hands.holds("onfloor", APPLE, "floor.n.01_1")
    assert not hands.holds("nextto", APPLE, "table.n.02_1")
    hands.do(Verb.GRASP, APPLE)
    assert not hands.holds("under", APPLE, "table.n.02_1")


def test_an_oven_cooks_after_the_published_time() -> None:
    """From 23 to 70 degrees under 200 at 0.04 per second takes ln(177 / 130) / 0.04 = 7.7 s."""
    hands = Hands(kitchen())
    hands.do(Verb.NAVIGATE_TO, OVEN)
    hands.do(Verb.OPEN, OVEN)
    hands.fetch(APPLE, Verb.PLACE_INSIDE, OVEN)
    hands.do(Verb.TOGGLE_ON, OVEN)
    slot = hands.household.index[APPLE]
    assert hands.state.temperature[slot] == 23.0  # an open oven does not heat
    hands.do(Verb.CLOSE, OVEN)
    assert hands.state.temperature[slot] == pytest.approx(200 - 177 * math.exp(-0.04 * 2))
    heat.pass_time(hands.household, hands.state, 5.6)
    assert not hands.holds("cooked", APPLE)
    heat.pass_time(hands.household, hands.state, 0.2)
    assert hands.holds("cooked", APPLE)
    hands.do(Verb.OPEN, OVEN)
    hands.do(Verb.GRASP, APPLE)
    for _ in range(40):
        hands.do(Verb.WAIT, "agent.n.01_1")
    assert hands.state.temperature[slot] == pytest.approx(23.0, abs=0.02)
    assert hands.holds("cooked", APPLE)  # cooked never reverts
    assert not hands.holds("burnt", APPLE)


def test_a_closed_refrigerator_freezes_and_air_thaws() -> None:
    hands = Hands(kitchen())
    hands.do(Verb.NAVIGATE_TO, FRIDGE)
    hands.do(Verb.OPEN, FRIDGE)
    hands.fetch(APPLE, Verb.PLACE_INSIDE, FRIDGE)
    hands.do(Verb.CLOSE, FRIDGE)
    for _ in range(2):
        hands.do(Verb.WAIT, "agent.n.01_1")
    assert hands.holds("frozen", APPLE)
    hands.do(Verb.OPEN, FRIDGE)
    hands.do(Verb.GRASP, APPLE)
    for _ in range(4):
        hands.do(Verb.WAIT, "agent.n.01_1")
    assert not hands.holds("frozen", APPLE)


def test_dust_goes_by_any_cleaner_stains_only_by_a_wet_one() -> None:
    init = f"(dusty {PLATE}) (stained {PLATE})"
    hands = Hands(kitchen(init=init))
    hands.do(Verb.NAVIGATE_TO, "rag.n.01_1")
    assert hands.refused(Verb.WIPE, PLATE) == "no hand holds a cleaning tool"
    hands.do(Verb.GRASP, "rag.n.01_1")
    hands.do(Verb.WIPE, PLATE)
    assert not hands.holds("dusty", PLATE)
    assert hands.holds("stained", PLATE)
    assert "does not take off" in hands.refused(Verb.WIPE, PLATE)
    hands.do(Verb.NAVIGATE_TO, SINK)
    assert hands.refused(Verb.SOAK, SINK) == "no liquid comes out of it"
    hands.do(Verb.TOGGLE_ON, SINK)
    hands.do(Verb.SOAK, SINK)
    assert hands.holds("soaked", "rag.n.01_1")
    hands.do(Verb.NAVIGATE_TO, PLATE)
    hands.do(Verb.WIPE, PLATE)
    assert not hands.holds("stained", PLATE)


def test_slicing_in_both_vocabularies() -> None:
    hands = Hands(kitchen())
    hands.do(Verb.NAVIGATE_TO, "knife.n.01_1")
    hands.do(Verb.GRASP, "knife.n.01_1")
    assert hands.refused(Verb.SLICE, PLATE) == "it cannot be cut"
    hands.do(Verb.SLICE, APPLE)
    assert hands.holds("sliced", APPLE)
    objects = "half__apple.n.01_1 half__apple.n.01_2 - half__apple.n.01"
    init = "(future half__apple.n.01_1) (future half__apple.n.01_2)"
    hands = Hands(kitchen("(real half__apple.n.01_1)", init, objects, "omnigibson"))
    assert not hands.holds("real", "half__apple.n.01_1")
    hands.do(Verb.NAVIGATE_TO, "knife.n.01_1")
    hands.do(Verb.GRASP, "knife.n.01_1")
    hands.do(Verb.SLICE, APPLE)
    assert hands.holds("real", "half__apple.n.01_1")
    assert hands.holds("ontop", "half__apple.n.01_2", PLATE)
    assert not hands.holds("real", APPLE)
    assert hands.refused(Verb.GRASP, APPLE) == "it does not exist"


def test_filling_and_pouring() -> None:
    objects = "water.n.06_1 - water.n.06 mug.n.04_1 - mug.n.04 bowl.n.01_1 - bowl.n.01"
    init = (
        "(insource sink.n.01_1 water.n.06_1) (ontop mug.n.04_1 table.n.02_1)"
        "(ontop bowl.n.01_1 table.n.02_1)"
    )
    goal = "(filled bowl.n.01_1 water.n.06_1)"
    hands = Hands(kitchen(goal, init, objects, "omnigibson"))
    hands.do(Verb.NAVIGATE_TO, "mug.n.04_1")
    hands.do(Verb.GRASP, "mug.n.04_1")
    hands.do(Verb.NAVIGATE_TO, SINK)
    hands.do(Verb.TOGGLE_ON, SINK)
    hands.do(Verb.FILL, SINK)
    hands.do(Verb.NAVIGATE_TO, "bowl.n.01_1")
    hands.do(Verb.POUR_INTO, "bowl.n.01_1")
    assert hands.holds("filled", "bowl.n.01_1", "water.n.06_1")
    assert hands.holds("contains", "bowl.n.01_1", "water.n.06_1")
    hands.do(Verb.POUR_ON, PLATE)
    assert hands.holds("covered", PLATE, "water.n.06_1")
    hands.do(Verb.NAVIGATE_TO, SINK)
    hands.do(Verb.EMPTY, SINK)
    assert not hands.holds("contains", "mug.n.04_1", "water.n.06_1")


@pytest.mark.parametrize("corpus", ["b100", "b1k"])
def test_every_fact_agrees_with_the_set_of_literals(corpus: str) -> None:
    """After random primitives, the atoms of the goal hold exactly where they are listed."""
    import random

    rng = random.Random(0)
    for name in activities(corpus)[::25]:
        instance = sample(load_activity(corpus, name), seed=1)
        household, state = instance.household, instance.start.copy()
        for _ in range(60):
            verb, slot = rng.choice(possible(household, state))
            assert act(household, state, verb, slot) == ""
        listed = literals(household, state)
        for atom in household.problem.goal.atoms:
            assert fact(household, atom)(state) == (atom in listed), (name, atom)


def test_saved_states_come_back_and_copies_are_apart() -> None:
    hands = Hands(kitchen())
    start = hands.state.save()
    copy = hands.state.copy()
    hands.fetch(APPLE, Verb.PLACE_ON_TOP, "floor.n.01_1")
    assert copy.save() == start
    assert hands.state.save() != start
    assert State.restore(hands.state.save()).save() == hands.state.save()
