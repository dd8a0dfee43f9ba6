"""What proximal policy optimisation is known to do, on corridors whose best ways are known."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clframe.core.results import Result
from clframe.robot.evaluation import policy_of
from clframe.testing import prepare, run_built
from tests.helpers import corridor

pytest.importorskip("gymnasium")
STARTS, HORIZON = corridor.STARTS, 30
PPO = {"name": "ppo", "steps": 4096, "n_steps": 32, "n_epochs": 4, "ent_coef": 0.01, "gamma": 0.95}
MODEL = {"name": "categorical", "hidden": [32, 32], "activation": "tanh"}


def learned(
    strategy: Any = "naive", learner: dict[str, Any] | None = None, **stream: Any
) -> tuple[Result, Any]:
    with tempfile.TemporaryDirectory() as folder:
        built = prepare(
            corridor.corridors(Path(folder), num_envs=8, horizon=HORIZON, **stream),
            strategy,
            MODEL,
            learner={**PPO, **(learner or {})},
            optimizer={"name": "adam", "lr": 0.003},
        )
        return run_built(built), built.learner


def returns(learner: Any, masked: bool) -> list[float]:
    """What the policy gets in the corridor from every start."""
    task = learner.stream.tasks[0]
    act = policy_of(learner, task, task.evaluation.inputs)
    found = []
    for start in STARTS:
        environment = corridor.Corridor(0, masked)
        environment.place, total, done = start, 0.0, False
        while not done and environment.steps < HORIZON:
            seen = environment.observe()["state"][None, None]
            with torch.inference_mode():
                (action,) = act({"state": seen}, np.array([environment.steps == 0]))
            _, reward, done, _, _ = environment.step(action)
            total += reward
        found.append(total)
    return found


def test_the_best_return_is_reached_from_every_start_and_not_without_the_mask() -> None:
    best = [corridor.best_return(start) for start in STARTS]
    result, learner = learned(tasks=1)
    assert returns(learner, masked=True) == pytest.approx(best, abs=1e-9)
    assert result.matrix.values[-1, 0] == 1.0
    _, blind = learned(tasks=1, masked=False)
    assert np.mean(returns(blind, masked=False)) < np.mean(best) - 0.5


SECOND = {"steps": 3072, "ent_coef": 0.2}


@functools.cache
def two_tasks(strategy: str) -> Any:
    plugins: Any = {"replay": {"batch_size": 16}} if strategy == "replay" else strategy
    return learned(plugins, SECOND, tasks=2, shaped=True)[0].matrix.values


def test_a_second_corridor_is_learned_and_the_first_one_forgotten() -> None:
    values = two_tasks("naive")
    assert values[1, 0] >= 0.9
    assert values[2, 1] >= 0.9
    assert values[2, 0] <= 0.2


def test_cloning_the_old_policy_holds_the_first_corridor() -> None:
    values = two_tasks("replay")
    assert values[1, 0] >= 0.9
    assert values[2, 1] >= 0.9
    assert values[2, 0] >= two_tasks("naive")[2, 0] + 0.3
