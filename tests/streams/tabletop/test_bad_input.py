"""What cannot be built says so in one sentence with its place."""

from __future__ import annotations

import numpy as np
import pytest

from clframe.bddl import BDDLError, parse
from clframe.errors import ClframeError, DataError, SettingError, UnknownNameError
from clframe.streams.tabletop import ordered, task, tasks
from clframe.streams.tabletop.env import TabletopEnv, make
from clframe.streams.tabletop.world import World

TEXT = tasks("tabletop_goal")[8].text


def built(*changes: tuple[str, str]) -> World:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    world = World(parse(text))
    world.reset(np.random.default_rng(0))
    return world


def test_an_object_without_a_model() -> None:
    change = ("akita_black_bowl_1 - akita_black_bowl", "akita_black_bowl_1 - akita_black_bowls")
    with pytest.raises(BDDLError, match=r"akita_black_bowls; did you mean 'akita_black_bowl'\?"):
        built(change)


def test_a_region_off_the_table() -> None:
    change = ("(0.04 -0.03 0.060000000000000005 -0.01)", "(0.94 -0.03 0.96 -0.01)")
    with pytest.raises(BDDLError, match="main_table_plate_region cannot be reached") as caught:
        built(change)
    assert caught.value.line > 1


def test_two_objects_that_do_not_fit() -> None:
    change = ("(On plate_1 main_table_plate_region)", "(On plate_1 main_table_cream_cheese_region)")
    with pytest.raises(
        BDDLError, match=r"(plate|cream_cheese)_1 and (plate|cream_cheese)_1 do not both fit"
    ):
        built(change)


def test_an_object_that_is_nowhere() -> None:
    with pytest.raises(BDDLError, match="plate_1 is nowhere at the start"):
        built(("(On plate_1 main_table_plate_region)", ""))


def test_an_object_in_two_places() -> None:
    twice = "(On plate_1 main_table_plate_region) (On plate_1 main_table_cream_cheese_region)"
    with pytest.raises(BDDLError, match="plate_1 starts in two places"):
        built(("(On plate_1 main_table_plate_region)", twice))


def test_a_place_that_the_model_does_not_have() -> None:
    change = (
        "(cook_region\n          (:target flat_stove_1)",
        "(oven\n          (:target flat_stove_1)",
    )
    with pytest.raises(BDDLError, match="The model of flat_stove_1 has no place 'oven'"):
        built(change)


def test_something_that_cannot_be_opened() -> None:
    change = (
        "(On plate_1 main_table_plate_region)",
        "(On plate_1 main_table_plate_region)\n(Open plate_1)",
    )
    with pytest.raises(BDDLError, match="plate_1 is nothing that can be opened or closed"):
        built(change)


def test_a_predicate_of_another_world() -> None:
    with pytest.raises(BDDLError, match="The simulation cannot decide 'cooked'"):
        built().holds(("cooked", "plate_1"))


def test_a_behavior_problem() -> None:
    text = (
        "(define (problem p) (:domain igibson) (:objects cup.n.01_1 - cup.n.01)"
        "(:init (open cup.n.01_1)) (:goal (open ?cup.n.01_1)))"
    )
    with pytest.raises(BDDLError, match="LIBERO's dialect"):
        World(parse(text))


def test_policies_that_are_no_good() -> None:
    env = make("tabletop_goal", "7")
    env.reset(seed=0)
    with pytest.raises(DataError, match="has 7 numbers"):
        env.step(np.zeros(6))
    with pytest.raises(DataError, match="holds NaN or infinity"):
        env.step(np.full(7, np.nan))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: tasks("tabletop_goals"), UnknownNameError),
        (lambda: task("tabletop_goal", "turn_on_the_stoves"), UnknownNameError),
        (lambda: ordered(tasks("tabletop_goal"), "shufled1"), SettingError),
        (lambda: make("tabletop_goal", "7", cameras=("agent",)), SettingError),
        (lambda: make("tabletop_goal", "7", horizon=0), SettingError),
        (lambda: TabletopEnv("no_such_file.bddl"), ClframeError),
    ],
)
def test_names_and_settings(wrong: object, error: type[ClframeError]) -> None:
    assert callable(wrong)
    with pytest.raises(error):
        wrong()
