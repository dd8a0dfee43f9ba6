"""The scripted expert: plans in order, succeeds, recovers, and says what it cannot do."""

from __future__ import annotations

import numpy as np
import pytest

from clframe.streams.tabletop import tasks
from clframe.worlds.bddl import BDDLError, parse
from clframe.worlds.tabletop.expert import Expert
from clframe.worlds.tabletop.expert.plan import ordered_goals
from clframe.worlds.tabletop.poses import quat_of_matrix, rotate_x
from clframe.worlds.tabletop.world import World


def make_world(suite: str, number: int, seed: int = 0) -> World:
    world = World(tasks(suite)[number].problem)
    world.reset(np.random.default_rng(seed))
    return world


def solved(world: World, steps: int = 600) -> bool:
    for step, action in enumerate(Expert(world).run(), 1):
        assert (np.abs(action) <= 1).all()
        world.step(action)
        if world.satisfied():
            return True
        if step == steps:
            break
    return False


@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize(
    "suite", ["tabletop_spatial", "tabletop_object", "tabletop_goal", "tabletop_long"]
)
def test_every_task_of_the_ten_task_suites(suite: str, number: int) -> None:
    assert solved(make_world(suite, number, seed=31))


# One of each kind that the ten-task suites lack.
@pytest.mark.parametrize("number", [17, 23, 33, 35, 39, 40, 42, 63, 86, 87])
def test_further_kinds(number: int) -> None:
    assert solved(make_world("tabletop_90", number, seed=32))


def test_the_plan_puts_first_things_first() -> None:
    microwave = ordered_goals(make_world("tabletop_long", 9))
    assert [goal[0] for goal in microwave] == ["in", "close"]
    drawer = ordered_goals(make_world("tabletop_goal", 3))
    assert [goal[0] for goal in drawer] == ["open", "in"]
    stack = ordered_goals(make_world("tabletop_90", 63))
    assert [goal[0] for goal in stack] == ["in", "on"]
    swap = ordered_goals(make_world("tabletop_90", 23))
    assert [goal[0] for goal in swap] == ["close", "open"]


def test_a_fallen_bottle_is_picked_up() -> None:
    world = make_world("tabletop_goal", 9)
    x, y, _ = world.position("wine_bottle_1")
    world.set_object("wine_bottle_1", np.array([x, y, 0.027]), quat_of_matrix(rotate_x(np.pi / 2)))
    world.advance(100)
    world.look()
    assert solved(world)


def test_a_push_during_the_carry_is_recovered_from() -> None:
    world = make_world("tabletop_object", 0)
    knocked = False
    for step, action in enumerate(Expert(world).run()):
        world.step(action)
        if not knocked and world.position("alphabet_soup_1")[2] > 0.12:
            world.set_object(
                "alphabet_soup_1", np.array([0.0, -0.02, 0.05]), np.array([1.0, 0, 0, 0])
            )
            world.forward()
            knocked = True
        if world.satisfied():
            break
        assert step < 600
    assert knocked
    assert world.satisfied()


def test_the_end_without_success_names_what_is_missing() -> None:
    world = make_world("tabletop_goal", 7)
    expert = Expert(world)
    for action in expert.run():
        world.step(action)
        world.set_joint("flat_stove_1/knob", 0.0)  # someone turns it back all the time
        world.look()
    assert expert.failed == (("turnon", "flat_stove_1"),)


def test_a_goal_that_forbids_is_refused() -> None:
    text = tasks("tabletop_goal")[7].text.replace(
        "(And (Turnon flat_stove_1))", "(Not (Turnoff flat_stove_1))"
    )
    text = text.replace("(:init", "(:init (Turnoff flat_stove_1)")
    world = World(parse(text))
    world.reset(np.random.default_rng(0))
    with pytest.raises(BDDLError, match="cannot make 'turnoff flat_stove_1' false"):
        list(Expert(world).run())
