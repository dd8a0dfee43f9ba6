"""Experiments of learning by reward: all compose, and some are run with a tiny budget."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import clframe
from clframe.build import build
from clframe.config.compose import compose
from clframe.config.read_overrides import catalog_of
from clframe.core.results import Result
from clframe.run import run

CONFIGS = Path(__file__).parents[2] / "configs" / "experiment"
EXPERIMENTS = catalog_of().groups["experiment"]
NAMES = sorted(n for n in EXPERIMENTS if n.startswith(("metaworld/", "continual_rl/cw")))
METHODS = ("naive", "ewc", "packnet", "replay")
needs_metaworld = pytest.mark.skipif(
    find_spec("metaworld") is None, reason="needs clframe[metaworld]"
)


def test_the_protocols_are_there() -> None:
    wanted = {f"continual_rl/cw5_small_{method}" for method in (*METHODS, "multitask")}
    wanted |= {f"continual_rl/{cw}_{m}" for cw in ("cw10", "cw20") for m in (*METHODS, "mas")}
    wanted |= {f"metaworld/mt{n}_{m}sac" for n in (10, 50) for m in ("mt", "mh")}
    wanted |= {"metaworld/mt1_sac", "metaworld/mt1_ppo"}
    wanted |= {
        f"metaworld/ml{n}_{m}" for n in (1, 10, 45) for m in ("finetune", "reptile", "fomaml")
    }
    assert set(NAMES) == wanted


def test_one_that_is_for_a_cluster_says_so_first() -> None:
    for name in NAMES:
        lines = (CONFIGS / f"{name}.yaml").read_text().splitlines()
        assert lines[1] == f"# clframe fit experiment={name}"
        assert lines[2].startswith("# FOR A CLUSTER") != ("cw5_small" in name), name


def test_continual_world_is_as_in_the_paper() -> None:
    config = compose(["experiment=continual_rl/cw20_naive"])
    assert config.stream["name"] == "metaworld_cw20"
    assert config.model["hidden"] == [256] * 4
    assert config.learner["steps"] == 1_000_000
    assert config.learner["start_steps"] == 10_000
    assert config.trainer["batch_size"] == 128
    assert config.optimizer["lr"] == 1e-3
    assert compose(["experiment=continual_rl/cw10_ewc"]).strategy["ewc"]["weight"] == 1e4


def test_no_two_small_experiments_differ_in_more_than_the_method() -> None:
    runs = {m: compose([f"experiment=continual_rl/cw5_small_{m}"]) for m in METHODS}
    for config in runs.values():
        assert config.stream == runs["naive"].stream
        assert config.model == runs["naive"].model
        assert config.trainer == runs["naive"].trainer
        assert {**config.learner, "cloning": 1.0} == {**runs["naive"].learner, "cloning": 1.0}


def tiny(name: str, *settings: str) -> Result:
    """Run an experiment with few decisions."""
    budget = ["learner.steps=14", "trainer.batch_size=4", "stream.horizon=10"]
    words = [f"experiment={name}", *budget, "stream.eval_episodes=1", "stream.num_workers=0"]
    config = compose([*words, *settings])
    built = build(config.replace(logger=None, run_dir=False, progress=False))
    return run(built.learner, built.stream, built.strategy)


@needs_metaworld
def test_continual_world_starts() -> None:
    result = tiny(
        "continual_rl/cw10_ewc", "stream.tasks=[push,window-close]", "learner.start_steps=4",
        "strategy.ewc.samples=5", "model.hidden=[8,8]",
    )  # fmt: skip
    assert result.matrix.rows == ["before", "push", "window-close"]


@needs_metaworld
def test_multi_task_learning_starts() -> None:
    result = tiny(
        "metaworld/mt10_mhsac", "stream.tasks=[reach,push]", "learner.start_steps=4",
        "learner.update_ratio=0.5", "model.hidden=[8]",
    )  # fmt: skip
    assert result.matrix.columns == ["reach", "push"]


@needs_metaworld
@pytest.mark.parametrize("method", ["reptile", "fomaml"])
def test_meta_learning_adapts_to_held_out_goals(method: str) -> None:
    result = tiny(
        f"metaworld/ml1_{method}", "stream.variations=1", "stream.rounds=2",
        "learner.start_steps=4", "evaluation.evaluate_every=2", "model.hidden=[8]",
    )  # fmt: skip
    assert result.matrix.rows == ["before", "reach-0", "reach-0 (2)", "reach-1"]
    found: dict[str, Any] = result.metrics["adaptation"]
    assert found["gain"] == found["after"] - found["before"]


@needs_metaworld
def test_variations_are_single_goals_and_held_out_ones_are_others() -> None:
    stream = clframe.stream("metaworld_ml1_reach", variations=2, adapt=True, rounds=2)
    assert [e.name for e in stream if not e.info.get("adapts")] == [
        "reach-0", "reach-1", "reach-0 (2)", "reach-1 (2)",
    ]  # fmt: skip
    assert [e.name for e in stream if e.info.get("adapts")] == ["reach-2", "reach-3"]
    goals = []
    for task in stream.tasks:
        environment: Any = task.evaluation.robot.environment()
        states = [environment.reset(seed=seed)[0]["state"] for seed in (0, 1)]
        assert (states[0] == states[1]).all()
        goals.append(tuple(states[0][-3:]))
    assert len(set(goals)) == 4
    other = clframe.stream("metaworld_ml1_reach", variations=1, goal_seed=7)
    environment = other.tasks[0].evaluation.robot.environment()
    assert tuple(environment.reset(seed=0)[0]["state"][-3:]) not in goals


@needs_metaworld
def test_adaptation_needs_something_held_out() -> None:
    with pytest.raises(
        clframe.SettingError, match=r"has no held-out tasks; for ML1, set stream.variation"
    ):
        clframe.stream("metaworld_mt10", adapt=True)
    held_out = clframe.stream("metaworld_ml10", adapt=True, tasks=["push"])
    assert [e.name for e in held_out][:2] == ["push", "drawer-open"]
