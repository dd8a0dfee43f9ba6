"""The Gymnasium environment and the suites."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.utils.env_match import check_environments_match

from clframe.streams.tabletop import ORDERS, SUITES, ordered, tasks
from clframe.worlds.tabletop.cameras import CAMERAS
from clframe.worlds.tabletop.env import TabletopEnv, make, make_vector
from clframe.worlds.tabletop.expert import Expert
from clframe.worlds.tabletop.observation import suite_layout


@pytest.mark.parametrize("cameras", [(), CAMERAS])
def test_gymnasiums_checker_is_content(cameras: tuple[str, ...]) -> None:
    env = make("tabletop_long", "6", cameras=cameras, size=16, render_mode="rgb_array")
    check_env(env, skip_render_check=True)
    image = env.render()
    assert image is not None
    assert image.shape == (256, 256, 3)


def test_two_environments_step_alike() -> None:
    check_environments_match(
        make("tabletop_object", "1"),
        make("tabletop_object", "1"),
        num_steps=20,
        info_comparison="equivalence",
    )


def test_an_episode_of_the_expert() -> None:
    env = make("tabletop_goal", "7", cameras=("agentview",), size=32, horizon=200, depth=True)
    seen, info = env.reset(seed=3)
    assert info == {"success": False, "language": "turn on the stove", "progress": 0.0}
    assert seen["agentview_rgb"].std() > 10
    assert 0.3 < np.median(seen["agentview_depth"]) < 3
    for action in Expert(env.world).run():
        seen, reward, terminated, truncated, info = env.step(action)
        if terminated:
            break
        assert reward == 0
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)


def test_the_horizon_cuts_off() -> None:
    env = make("tabletop_goal", "7", horizon=2)
    env.reset(seed=0)
    assert env.step(np.zeros(7))[3] is False
    assert env.step(np.zeros(7))[3] is True


def test_states_of_a_suite_have_one_size_and_fixed_slots() -> None:
    layout = suite_layout("tabletop_object").of("arm")
    slots = {name: layout.robot_size + 13 * number for number, name in enumerate(layout.objects)}
    for number in range(3):
        env = TabletopEnv(tasks("tabletop_object")[number])
        state = env.reset(seed=0)[0]["state"]
        assert state.shape == (layout.size,)
        for name, start in slots.items():
            present = name in env.world.plan.objects
            assert state[start] == present
            if present:
                assert state[start + 1 : start + 4] == pytest.approx(
                    env.world.position(name), abs=1e-5
                )
            else:
                assert not state[start : start + 13].any()


def test_environments_step_together() -> None:
    vector = make_vector("tabletop_spatial", ["0", "1"])
    seen, _ = vector.reset(seed=[1, 2])
    assert seen["state"].shape == (2, suite_layout("tabletop_spatial").of("arm").size)
    alone = make("tabletop_spatial", "1").reset(seed=2)[0]["state"]
    assert (seen["state"][1] == alone).all()
    vector.close()


def test_suites_have_liberos_tasks() -> None:
    counts = {suite: len(tasks(suite)) for suite in SUITES[:-1]}
    assert list(counts.values()) == [10, 10, 10, 10, 90]
    for suite in SUITES[:-1]:
        assert len({task.name for task in tasks(suite)}) == counts[suite]
    long = tasks("tabletop_long")
    assert long[8].instruction == "put both moka pots on the stove"
    assert tasks("tabletop_spatial")[4].name.startswith("pick_up_the_black_bowl_in_the_top_drawer")
    assert tasks("tabletop_90")[35].instruction == "open the microwave"
    # LIBERO instructs by file name; the other string differs and is kept beside it.
    assert (
        tasks("tabletop_object")[0].problem.language
        == "pick the alphabet soup and place it in the basket"
    )


def test_generated_tasks_are_a_prefix_and_differ_by_seed() -> None:
    few, more = tasks("tabletop_generated", n=3, seed=1), tasks("tabletop_generated", n=5, seed=1)
    assert [task.name for task in few] == [task.name for task in more[:3]]
    assert few[0].name != tasks("tabletop_generated", n=3, seed=2)[0].name


@pytest.mark.parametrize("order", sorted(ORDERS))
def test_an_order_is_a_permutation(order: str) -> None:
    plain = tasks("tabletop_goal")
    mixed = ordered(plain, order)
    assert sorted(task.name for task in mixed) == sorted(task.name for task in plain)
    assert mixed == ordered(plain, order)


def test_orders_differ() -> None:
    plain = tasks("tabletop_goal")
    assert len({tuple(task.name for task in ordered(plain, order)) for order in ORDERS}) == len(
        ORDERS
    )
    ends = [plain.index(task) for task in ordered(plain, "both_ends")]
    assert ends == [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]


@pytest.mark.parametrize("number", ["0", "7"])
def test_images_are_those_of_casting_all_rays(number: str) -> None:
    from clframe.worlds.tabletop.cameras import CAMERAS, Cameras

    env = make("tabletop_goal", number)
    images = Cameras(env.world)
    rng = np.random.default_rng(1)
    for seed in range(2):
        env.reset(seed=seed)
        for step in range(25):
            env.step(np.clip(rng.normal([0.2, 0, -0.4, 0, 0, 0, 0], 0.6), -1, 1))
            if step == 12:  # what an action can do as well: drawers open, the stove is on
                for key, part in env.world.joints.items():
                    env.world.set_joint(key, float(np.mean(part.spec.limits)))
                env.world.look()
            for camera, frame in zip(CAMERAS, images.take_all(CAMERAS), strict=True):
                wanted = images.without_memory(camera)
                np.testing.assert_array_equal(frame.rgb, wanted.rgb)
                np.testing.assert_array_equal(frame.depth, wanted.depth)
