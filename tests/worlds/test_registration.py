"""Worlds under their Gymnasium ids, without anything of continual learning."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import clframe.worlds.registration  # noqa: F401  registers the ids
from clframe.errors import ClframeError

IDS: list[tuple[str, dict[str, Any]]] = [
    ("clframe/Tabletop-v0", {"task": "tabletop_goal/0", "horizon": 20}),
    ("clframe/Household-v0", {"task": "b100/picking_up_trash"}),
    ("clframe/PointRobot-v0", {"task": 1, "of": 3}),
]


@pytest.mark.parametrize(("name", "settings"), IDS)
@pytest.mark.filterwarnings("ignore:.*(infinity|symmetric|normalized|minimum value|maximum).*")
def test_a_world_passes_gymnasiums_own_check(name: str, settings: dict[str, Any]) -> None:
    env = gymnasium.make(name, **settings)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_the_point_robot_reaches_its_place() -> None:
    env = gymnasium.make("clframe/PointRobot-v0", task=2, of=4, render_mode="rgb_array")
    env.reset(seed=3)
    point: Any = env.unwrapped
    for _ in range(60):
        move = np.clip((point.place - point.position) / 0.1, -1, 1).astype(np.float32)
        _, _, _, truncated, info = env.step(move)
    assert truncated
    assert info["success"]
    assert env.render().shape == (96, 96, 3)


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("clframe/Tabletop-v0", {"task": "tabletop_goal/99"}, "no task '99'"),
        ("clframe/Household-v0", {"task": "b100/making_te"}, "did you mean"),
        ("clframe/Household-v0", {"task": "making_tea"}, "CORPUS/ACTIVITY"),
        ("clframe/PointRobot-v0", {"task": 4, "of": 4}, "from 0 to 3"),
    ],
)
def test_a_wrong_task_is_named(name: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ClframeError, match=words):
        gymnasium.make(name, **settings)
