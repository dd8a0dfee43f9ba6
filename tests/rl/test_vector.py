"""Several environments at once, each against one that is stepped by itself."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch

from clframe.rl.env_slots import Maker
from clframe.rl.vector import VectorEnvironment
from clframe.robot.task import RobotTask, episode_seeds
from clframe.testing import prepare, run_built
from clframe.worlds.point_robot import PointEnvironment

N, HORIZON, STEPS, KEY = 3, 6, 20, (1, 2)
MAKE = Maker(RobotTask("point", "vector", "", functools.partial(PointEnvironment, 0, 1)), 4, 2)


def made(processes: int, window: int = 2) -> VectorEnvironment:
    return VectorEnvironment(MAKE, N, KEY, HORIZON, window, processes)


def actions(steps: int = STEPS) -> Any:
    drawn = np.random.default_rng(0).uniform(-1, 1, (steps, N, 2)).astype(np.float32)
    drawn[:, 1] = 1  # one that goes straight on, and may leave the others behind
    return drawn


@pytest.mark.parametrize("processes", [0, 2])
def test_each_environment_goes_through_its_own_episodes(processes: int) -> None:
    vector = made(processes)
    seen, happened = [], []
    for action in actions():
        seen.append(vector.windows.copy())
        happened.append(vector.step(action))
    vector.close()
    for slot in range(N):
        plain, episode, steps, total = PointEnvironment(0, 1), 0, 0, 0.0
        state = plain.reset(seed=episode_seeds(1, *KEY, slot)[0])[0]["state"]
        window = np.stack([state, state])
        for step, action in enumerate(actions()[:, slot]):
            assert np.array_equal(seen[step][slot], window)
            after, reward, terminated, truncated, info = plain.step(action)
            steps, total = steps + 1, total + reward
            window = np.stack([window[1], after["state"]])
            over = terminated or truncated or steps == HORIZON
            result = happened[step]
            assert result.reward[slot] == np.float32(reward)
            assert (result.ended[slot], result.terminated[slot]) == (over, terminated)
            assert (slot in result.last) == over
            if over:
                assert np.array_equal(result.last[slot], window)
                # Those that ended are told in the order of their slots.
                told = result.finished[sorted(result.last).index(slot)]
                assert (told.steps, told.success) == (steps, info["success"])
                assert told.total == pytest.approx(total)
                episode, steps, total = episode + 1, 0, 0.0
                seed = episode_seeds(1, *KEY, slot, start=episode)[0]
                state = plain.reset(seed=seed)[0]["state"]
                window = np.stack([state, state])
        assert episode == STEPS // HORIZON


@pytest.mark.parametrize("stop", [0, 1, 7])
def test_a_restored_one_goes_on_as_the_other(stop: int) -> None:
    whole, first, second = made(0), made(0), made(0)
    for action in actions()[:stop]:
        whole.step(action)
        first.step(action)
    if not stop:
        whole.windows  # noqa: B018
        first.windows  # noqa: B018
    second.load_state_dict(first.state_dict())
    for action in actions()[stop:]:
        assert np.array_equal(whole.windows, second.windows)
        mine, theirs = whole.step(action), second.step(action)
        assert np.array_equal(mine.reward, theirs.reward)
        assert mine.finished == theirs.finished
    for vector in (whole, first, second):
        vector.close()


def test_a_run_is_the_same_with_any_number_of_workers() -> None:
    def weights(num_workers: int) -> dict[str, Any]:
        built = prepare(
            {"name": "point_robot", "n_tasks": 1, "eval_episodes": 2, "num_workers": num_workers},
            learner={"name": "ppo", "n_envs": 3, "n_steps": 50, "steps": 300, "n_epochs": 1},
            model={"name": "actor", "hidden": [8]},
        )
        run_built(built)
        return dict(built.learner.state_dict())

    here, there = weights(0), weights(2)
    assert all(torch.equal(value, there[name]) for name, value in here.items())
