"""BEHAVIOR's activities with physics."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from clframe.worlds.behavior.corpus import load_activity
from clframe.worlds.behavior.env import BehaviorEnv
from clframe.worlds.behavior.faults import ActivityError
from clframe.worlds.behavior.physics.physics_env import PhysicalBehaviorEnv
from clframe.worlds.behavior.physics.solve import solve
from clframe.worlds.behavior.physics.sync import write_back
from clframe.worlds.behavior.planner.search import plan
from clframe.worlds.behavior.tracker import GoalTracker
from clframe.worlds.behavior.verbs import Verb
from clframe.worlds.tabletop.simulation import Simulation


@pytest.mark.parametrize("name", ["sorting_books", "storing_food"])
def test_the_planners_plan_reaches_the_goal(name: str) -> None:
    env = PhysicalBehaviorEnv(("b100", name))
    start = env.q
    actions: list[np.ndarray] = []
    env.watcher = actions.append
    total, done = 0.0, False
    twin = BehaviorEnv(("b100", name))
    judge = GoalTracker(twin.household)
    # The literals of the goal are judged as without physics, at the start ...
    assert env.tracker.true_atoms(env._truth) == judge.true_atoms(judge.truth(twin.state))
    for verb, slot in plan(env.instance).steps:
        assert env.action_masks()[env.action(verb, slot)]
        _, reward, done, _, info = env.step(env.action(verb, slot))
        assert info["refusal"] == ""
        # ... and where the same primitives lead to.
        twin.step(twin.action(Verb.NAVIGATE_TO, slot))
        twin.step(twin.action(verb, slot))
        total += reward
        assert env.tracker.true_atoms(env._truth) == judge.true_atoms(judge.truth(twin.state))
    assert done
    assert env.q == 1.0
    assert total == pytest.approx(1.0 - start)
    assert env.problem.goal.satisfied(env.literals())
    assert np.abs(np.array(actions)).max() <= 1.0
    assert len(actions) > 100


def test_a_drawer_is_opened_filled_and_emptied_by_the_hand() -> None:
    env = PhysicalBehaviorEnv(("b100", "cleaning_out_drawers"))
    assert solve(env).score == 1.0
    held = {literal[:2] for literal in env.literals() if literal[0] == "nextto"}
    assert {("nextto", f"spoon.n.01_{k}") for k in (1, 2)} <= held


@pytest.mark.parametrize(
    ("activity", "sentence"),
    [
        (("b100", "cleaning_shoes"), "is not simulated"),
        (("b100", "installing_a_printer"), "printer.n.03_1 has a moving part"),
        (("b100", "assembling_gift_baskets"), "There is no room"),
    ],
)
def test_what_a_table_cannot_have_is_refused_in_one_sentence(
    activity: tuple[str, str], sentence: str
) -> None:
    with pytest.raises(ActivityError, match=sentence) as refused:
        PhysicalBehaviorEnv(activity)
    text = str(refused.value)
    assert text.startswith(f"b100/{activity[1]}/problem0.bddl:")
    assert text.count(". ") == 0
    assert text.endswith(".")
    names = load_activity(*activity).objects
    assert any(name in text for name in names)


def test_what_holds_is_geometry() -> None:
    env = PhysicalBehaviorEnv(("b100", "sorting_books"))
    table = env.table
    assert table is not None
    book, shelf = "book.n.02_1", "shelf.n.01_1"
    floor = "floor.n.01_1"
    upright = np.array([1.0, 0, 0, 0])
    for number, name in enumerate(table.cast.free):  # nothing else in the way
        table.set_object(name, np.array([4.0 + 0.3 * number, 4.0, 1.0]), upright)

    def put(where: np.ndarray) -> None:
        table.set_object(book, where, upright)
        table.advance(40)
        table.look()

    low, high = table.bounds(shelf)
    height = table.cast.assets[book].bottom
    put(np.array([*(low + high)[:2] / 2, high[2] + height + 0.001]))
    now = table.relations(None)
    assert now.on_top(book, shelf)
    assert not now.on_top(book, floor)
    assert not table.relations(book).on_top(book, shelf)  # what is held is nowhere
    half = np.array(table.cast.assets[book].geoms[0].size)
    extent = (2 * half + (high - low)).mean()
    for gap, beside in ((0.9 * extent / 6, True), (1.15 * extent / 6, False)):
        put(np.array([high[0] + half[0] + gap, (low + high)[1] / 2, height + 0.001]))
        now = table.relations(None)
        assert now.next_to(book, shelf) is beside
        assert now.next_to(shelf, book) is beside
        assert now.on_top(book, floor)
        assert not now.on_top(book, shelf)


def test_boxes_of_turned_cylinders_are_exact() -> None:
    env = PhysicalBehaviorEnv(("b100", "storing_food"))
    table = env.table
    assert table is not None
    (name, *_) = table._round
    low, high = table.bounds(name)
    radius = max(geom.size[0] for geom in table.cast.assets[name].geoms)
    assert (high - low)[:2] == pytest.approx(2 * radius, abs=1e-4)
    wider = Simulation.bounds(table, name)
    assert (wider[1] - wider[0])[0] >= (high - low)[0]


def test_a_start_follows_from_its_seed_and_a_moment_comes_back() -> None:
    env = PhysicalBehaviorEnv(("b100", "sorting_books"))
    assert env.table is not None
    first, _ = env.reset(seed=3)
    other, _ = env.reset(seed=4)
    again, _ = env.reset(seed=3)
    assert np.array_equal(first["things"], again["things"])
    assert not np.array_equal(first["things"], other["things"])
    steps = plan(env.instance).steps
    env.step(env.action(*steps[0]))
    saved = env.save()
    env.step(env.action(*steps[1]))
    after = np.array(env.table.data.qpos)
    env.reset(seed=4)
    env.restore(saved)
    seen, *_ = env.step(env.action(*steps[1]))
    assert np.array_equal(after, env.table.data.qpos)
    assert seen["things"][env.household.index[env.household.names[steps[0][1]]], -1] == 0


def test_what_cannot_be_done_is_refused_and_masked() -> None:
    env = PhysicalBehaviorEnv(("b100", "sorting_books"))
    lying = ("onfloor", "book.n.02_1", "floor.n.01_1")
    assert lying in env.literals()
    _, reward, _, _, info = env.step(env.action(Verb.WIPE, "book.n.02_1"))
    assert info["refusal"] == "wipe has no physics"
    assert reward == 0.0
    env.step(env.action(Verb.GRASP, "book.n.02_1"))
    assert env.hand.held == "book.n.02_1"
    assert lying not in env.literals()
    _, _, _, _, info = env.step(env.action(Verb.GRASP, "book.n.02_2"))
    assert info["refusal"] == "no hand is free"
    mask = env.action_masks()
    assert not mask[env.action(Verb.GRASP, "book.n.02_2")]
    assert mask[env.action(Verb.PLACE_ON_TOP, "shelf.n.01_1")]
    env.step(env.action(Verb.RELEASE, "book.n.02_1"))
    assert env.hand.held is None
    assert lying in env.literals()


@pytest.mark.filterwarnings("ignore:.*Box observation space.*")
def test_it_is_a_gymnasium_environment() -> None:
    check_env(PhysicalBehaviorEnv(("b100", "sorting_books")), skip_render_check=True)


def test_things_that_lean_on_each_other_lie_on_the_floor() -> None:
    env = PhysicalBehaviorEnv(("b100", "sorting_books"))
    assert env.table is not None
    one, other = "book.n.02_1", "book.n.02_2"
    relations = env.table.relations(None)
    relations._supports = {(one, other), (other, one)}
    write_back(env.state, env.table, relations)
    floor = env.household.index["floor.n.01_1"]
    assert env.state.parent[env.household.index[one]] == floor
    assert env.state.parent[env.household.index[other]] == env.household.index[one]
