"""The environment's contract, its reward, its metrics and the planner on real activities."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env

from clframe.errors import SettingError
from clframe.metrics import behavior as metrics
from clframe.worlds.bddl import Goal, parse
from clframe.worlds.behavior.env import BehaviorEnv
from clframe.worlds.behavior.planner.search import plan
from clframe.worlds.behavior.record import replay
from clframe.worlds.behavior.verbs import PRIMITIVES, Verb

ACTIVITIES = [
    ("b100", "making_tea"),
    ("b100", "sorting_groceries"),
    ("b100", "cleaning_kitchen_cupboard"),
    ("b1k", "boil_water"),
    ("b1k", "clean_snow_peas"),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("activity", ACTIVITIES[::3])
def test_gymnasium_accepts_it(activity: tuple[str, str]) -> None:
    check_env(BehaviorEnv(activity, slots=40))


@pytest.mark.parametrize("activity", ACTIVITIES)
def test_a_plan_raises_q_to_one_and_every_q_is_that_of_the_literals(
    activity: tuple[str, str],
) -> None:
    env = BehaviorEnv(activity, slots=50)
    env.reset(seed=2)
    found = plan(env.instance)
    assert found.score == 1.0
    env.reset(seed=2)
    goal, start = env.problem.goal, env.q
    assert goal.score(env.literals()) == start < 1
    total = 0.0
    for place, (verb, slot) in enumerate(found.steps):
        action = env.action(verb, slot)
        assert env.action_masks()[action]
        _, reward, ended, cut_off, info = env.step(action)
        total += reward
        assert info["refusal"] == ""
        assert info["q"] == goal.score(env.literals())
        assert info["success"] == ended == goal.satisfied(env.literals())
        assert ended == (place == len(found.steps) - 1)
        assert not cut_off
    assert total == pytest.approx(1 - start)


def test_the_mask_says_exactly_what_is_possible() -> None:
    env = BehaviorEnv(("b100", "cleaning_kitchen_cupboard"))
    rng = np.random.default_rng(0)
    env.reset()
    for _ in range(30):
        mask = env.action_masks()
        for verb, slot in itertools.product(Verb, range(len(env.household.names))):
            free = PRIMITIVES[verb].check(env.household, env.state, slot) == ""
            assert free == bool(mask[env.action(verb, slot)]), (verb, env.household.names[slot])
        env.step(int(rng.choice(np.flatnonzero(mask))))


def test_resets_and_saved_moments_come_back() -> None:
    env = BehaviorEnv(("b1k", "boil_water"))
    first, _ = env.reset(seed=5)
    steps = [env.action(verb, slot) for verb, slot in plan(env.instance).steps]
    for action in steps[:3]:
        env.step(action)
    saved = env.save()
    rest = [env.step(action)[0] for action in steps[3:]]
    assert env.success
    env.restore(saved)
    assert not env.success
    for action, expected in zip(steps[3:], rest, strict=True):
        seen = env.step(action)[0]
        assert all(np.array_equal(seen[key], expected[key]) for key in seen)
    again, _ = env.reset(seed=5)
    assert all(np.array_equal(first[key], again[key]) for key in first)


def test_an_impossible_action_is_refused_and_the_horizon_ends_the_episode() -> None:
    env = BehaviorEnv(("b100", "making_tea"), horizon=2)
    env.reset()
    _, reward, ended, cut_off, info = env.step(env.action(Verb.GRASP, "stove.n.01_1"))
    assert (reward, ended, cut_off) == (0.0, False, False)
    assert info["refusal"] == "it cannot be carried"
    assert env.step(env.action(Verb.WAIT, env.household.agent))[3]
    with pytest.raises(SettingError, match="slots=3 is too few"):
        BehaviorEnv(("b100", "making_tea"), slots=3)
    with pytest.raises(SettingError, match="horizon"):
        BehaviorEnv(("b100", "making_tea"), horizon=0)


ERRAND = """(define (problem errand) (:domain igibson)
 (:objects agent.n.01_1 - agent.n.01 floor.n.01_1 - floor.n.01 table.n.02_1 - table.n.02
   shelf.n.01_1 - shelf.n.01 apple.n.01_1 - apple.n.01)
 (:init (inroom floor.n.01_1 kitchen) (inroom table.n.02_1 kitchen) (inroom shelf.n.01_1 kitchen)
   (onfloor agent.n.01_1 floor.n.01_1) (ontop apple.n.01_1 table.n.02_1))
 (:goal (and (ontop apple.n.01_1 shelf.n.01_1))))"""


def test_metrics_of_an_errand_by_hand() -> None:
    """Walk, take, walk, put: every length from the positions, every second from the durations."""
    env = BehaviorEnv(parse(ERRAND), record=True)
    env.reset()
    slot = env.household.index["apple.n.01_1"]
    bases, apples, right = [env.state.base], [env.state.position[slot]], []
    steps = [
        (Verb.NAVIGATE_TO, "apple.n.01_1"),
        (Verb.GRASP, "apple.n.01_1"),
        (Verb.NAVIGATE_TO, "shelf.n.01_1"),
        (Verb.PLACE_ON_TOP, "shelf.n.01_1"),
    ]
    for verb, name in steps:
        env.step(env.action(verb, name))
        bases.append(env.state.base)
        apples.append(env.state.position[slot])
        right.append(env.state.hand_positions[1])
    assert env.success
    assert env.recorder is not None
    episode = metrics.Episode(**env.recorder.episode())
    result = metrics.evaluate(env.problem.goal, episode, human=episode)
    values = result["efficiency"]
    walked = math.dist(bases[0], bases[1]) + math.dist(bases[2], bases[3])
    assert values["distance_navigated"] == pytest.approx(walked)
    assert values["simulated_time"] == pytest.approx(walked + 2 + 2)
    assert values["kinematic_differential"] == pytest.approx(math.dist(apples[0], apples[-1]))
    path = sum(math.dist(a, b) for a, b in itertools.pairwise(apples))
    assert values["kinematic_accumulated"] == pytest.approx(path)
    # The right hand goes to the apple, carries it and puts it down; the left one does nothing.
    hand = sum(math.dist(a, b) for a, b in itertools.pairwise(right))
    assert metrics.hand_displacement(
        episode.hands["right"], episode.hand_active["right"]
    ) == pytest.approx(hand)
    assert metrics.hand_displacement(episode.hands["left"], episode.hand_active["left"]) == 0.0
    # Taken: ontop and touching change (one change of place for apple and table each); put: the same
    # with the shelf. Seen from the ends: the apple, the table and the shelf changed place once.
    assert values["logical_differential"] == 3
    assert result["score"]["q"] == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert all(pair["agent_over_human"] == 1.0 for pair in result["normalized"].values())


CUT = """(define (problem cut) (:domain omnigibson)
 (:objects agent.n.01_1 - agent.n.01 floor.n.01_1 - floor.n.01 table.n.02_1 - table.n.02
   carving_knife.n.01_1 - carving_knife.n.01 apple.n.01_1 - apple.n.01
   half__apple.n.01_1 half__apple.n.01_2 - half__apple.n.01)
 (:init (inroom floor.n.01_1 kitchen) (inroom table.n.02_1 kitchen)
   (ontop agent.n.01_1 floor.n.01_1) (ontop apple.n.01_1 table.n.02_1)
   (ontop carving_knife.n.01_1 table.n.02_1)
   (future half__apple.n.01_1) (future half__apple.n.01_2))
 (:goal (and (real half__apple.n.01_1) (ontop half__apple.n.01_2 floor.n.01_1))))"""


def test_halves_are_measured_from_their_whole() -> None:
    instance = BehaviorEnv(parse(CUT)).instance
    found = plan(instance)
    assert found.score == 1.0
    record = replay(instance, found.steps).episode()
    halves = [f"half__apple.n.01_{number}" for number in (1, 2)]
    assert record["halves"] == dict.fromkeys(halves, "apple.n.01_1")
    names = [*halves, "apple.n.01_1"]
    moved = metrics.kinematic_disarrangement(
        {name: record["objects"][name] for name in names}, record["halves"]
    )
    whole = record["objects"]["apple.n.01_1"][0]
    expected = math.dist(whole, record["objects"][halves[1]][-1])
    assert expected > 0.1
    # The first half stays where the whole was, which stays where it was cut.
    assert moved["differential"] == pytest.approx(expected)


def test_the_nearest_option_has_the_score() -> None:
    folder = Path(__file__).parents[2] / "data" / "bddl" / "behavior"
    goal: Goal = parse(folder / "b100__assembling_gift_baskets.bddl").goal
    atoms = sorted(goal.atoms)
    rng = np.random.default_rng(0)
    for _ in range(10):
        world = [atom for atom in atoms if rng.random() < 0.3]
        option = goal.nearest_option(world)
        assert option is not None
        true = sum((atom in world) == sign for atom, sign in option)
        assert true / len(option) == goal.score(world)
        banned = option[0]
        other = goal.nearest_option(world, [banned])
        assert other is not None
        assert banned not in other
