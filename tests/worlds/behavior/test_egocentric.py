"""Images through the agent's eyes."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from clframe.errors import SettingError
from clframe.worlds.behavior.egocentric import FAR, HEAD, EgocentricEnv
from clframe.worlds.behavior.planner.search import plan
from clframe.worlds.behavior.verbs import Verb


@pytest.mark.filterwarnings("ignore:.*Box observation space.*")
def test_it_is_a_gymnasium_environment() -> None:
    check_env(EgocentricEnv(("b100", "storing_food"), size=16), skip_render_check=True)


def test_images_have_one_size_and_follow_from_seed_and_actions() -> None:
    def episode() -> list[np.ndarray]:
        env = EgocentricEnv(("b100", "sorting_books"), size=24)
        seen = [env.reset(seed=2)[0]]
        seen += [env.step(env.action(verb, slot))[0] for verb, slot in plan(env.instance).steps]
        assert env.q == 1.0
        for each in seen:
            assert each["rgb"].shape == (24, 24, 3)
            assert each["depth"].shape == (24, 24)
            assert each["depth"].min() > 0
            assert each["depth"].max() <= FAR
        return [each["rgb"] for each in seen]

    assert all(np.array_equal(a, b) for a, b in zip(episode(), episode(), strict=True))


def test_depth_is_the_distance_to_what_is_looked_at() -> None:
    env = EgocentricEnv(("b100", "storing_food"), size=33)
    env.reset(seed=0)
    name = "sugar.n.01_1"
    seen, *_ = env.step(env.action(Verb.NAVIGATE_TO, name))
    slot = env.household.index[name]
    point = np.array(env._middle(slot))
    eye = np.array([*env.state.base, HEAD])
    way = (point - eye) * [1, 1, 0]
    length = np.linalg.norm(way)
    eye -= max(0.0, 1.3 - length) * way / length  # eyes keep a distance
    reach = max(env.household.half[slot])
    assert seen["depth"][16, 16] == pytest.approx(np.linalg.norm(point - eye), abs=1.8 * reach)


def test_a_closed_cabinet_hides_what_is_in_it() -> None:
    env = EgocentricEnv(("b100", "storing_food"))
    env.reset(seed=0)
    for verb, slot in plan(env.instance).steps[:6]:  # open, fetch one thing, put it in
        env.step(env.action(verb, slot))
    inside = next(literal[1] for literal in env.literals() if literal[0] == "inside")
    house, camera = env._house(env.size, 1)
    thing = house.model.body(f"thing{env.household.index[inside]}").geomadr[0]

    def pixels() -> int:
        seen: list[np.ndarray] = []
        render = camera.render
        camera.render = lambda *args: seen.append(render(*args)) or seen[-1]  # type: ignore
        env.look(env.size)
        camera.render = render  # type: ignore[method-assign]
        return int((seen[0].geom == thing).sum())

    assert pixels() > 0
    env.step(env.action(Verb.CLOSE, "cabinet.n.01_1"))
    assert pixels() == 0


def test_a_saved_moment_shows_the_same_image() -> None:
    env = EgocentricEnv(("b100", "sorting_books"), size=24)
    env.reset(seed=1)
    for verb, slot in plan(env.instance).steps[:3]:
        seen, *_ = env.step(env.action(verb, slot))
    saved = env.save()
    env.reset(seed=5)
    assert np.array_equal(env.restore(saved)["rgb"], seen["rgb"])


def test_a_image_without_pixels_is_refused() -> None:
    with pytest.raises(SettingError, match="size is a number of pixels from 8 up, not 2"):
        EgocentricEnv(("b100", "sorting_books"), size=2)
