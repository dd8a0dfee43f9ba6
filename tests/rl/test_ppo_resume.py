"""A run that is killed at any update ends with the same bits, in the middle of episodes, too."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clframe import DataError, Plugin
from clframe.build import Built
from clframe.checkpoint.settings import CheckpointSettings
from clframe.plugins.ewc import EWC
from clframe.plugins.packnet import PackNet
from clframe.plugins.replay import Replay
from clframe.run import run
from clframe.runs.folder import RunFolder
from clframe.testing import Kill, Killed, prepare
from tests.helpers import corridor

pytest.importorskip("gymnasium")
POINT = {"name": "point_robot", "n_tasks": 2, "eval_episodes": 2, "horizon": 7, "window": 2}


def small(folder: Path, kind: str, plugins: list[Plugin], **learner: Any) -> Built:
    """Two tasks of three rollouts; an episode goes on from one to the next."""
    choices = {"eval_episodes": 2, "horizon": 7, "window": 1}
    stream: Any = POINT if kind == "numbers" else corridor.corridors(folder, **choices)
    return prepare(
        stream,
        plugins,
        {"name": "actor", "hidden": [8], "heads": "task"},
        learner={
            "name": "ppo",
            **{"n_envs": 3, "n_steps": 5, "steps": 40, "n_epochs": 2, "remember": 20},
            **learner,
        },
        batch_size=8,
        check_val_every_n_epoch=1,
    )


def killed(
    folder: Path, kind: str, plugins: list[Plugin], every: int, after: int, **learner: Any
) -> Built:
    where = RunFolder(folder)
    where.saving = CheckpointSettings(every_n_steps=every)
    for _ in range(100):
        built = small(folder, kind, [*copy.deepcopy(plugins), Kill(after)], **learner)
        try:
            run(built.learner, built.stream, "small", where)
        except Killed:
            continue
        return built
    raise AssertionError("the run never came to its end")


@pytest.mark.parametrize(
    ("kind", "plugins", "every", "learner"),
    [
        # A rollout has four updates: saved within one, and after its last.
        ("choices", [Replay(size=20)], 3, {}),
        ("choices", [], 4, {"action_repeat": 2}),
        ("numbers", [PackNet(), EWC()], 3, {"value_lr": 0.01}),
        ("choices", [], 3, {"reset": [], "target_kl": 1e-5}),
    ],
    ids=["replay", "held_actions", "packnet_ewc", "stopped_early"],
)
def test_a_killed_run_ends_with_the_same_bits(
    tmp_path: Path, kind: str, plugins: list[Plugin], every: int, learner: dict[str, Any]
) -> None:
    whole = small(tmp_path, kind, [*copy.deepcopy(plugins), Kill(10**9)], **learner)
    result = run(whole.learner, whole.stream, "small")
    again = killed(tmp_path, kind, plugins, every, after=every + 1, **learner)
    assert again.learner.state.curves == result.curves
    assert np.array_equal(again.learner.state.matrix.values, result.matrix.values, equal_nan=True)
    state = again.learner.state_dict()
    for name, value in whole.learner.state_dict().items():
        assert torch.equal(value, state[name]), name
    assert torch.equal(whole.learner.generator.get_state(), again.learner.generator.get_state())
    mine, theirs = (b.learner.collector.state_dict() for b in (whole, again))  # type: ignore[attr-defined]
    for name, column in mine["rollout"].items():
        assert torch.equal(column, theirs["rollout"][name]), name
    for name, column in mine["environments"]["columns"].items():
        assert torch.equal(column, theirs["environments"]["columns"][name]), name
    assert torch.equal(mine["recent"], theirs["recent"])
    assert mine["rollouts"] == theirs["rollouts"] == 3
    # Fewer than 3 rollouts x 2 passes x 2 minibatches for each task, if it was stopped early.
    updates = 24 if "target_kl" not in learner else whole.learner.global_steps
    if not any(plugin.name == "packnet" for plugin in plugins):
        assert whole.learner.global_steps == again.learner.global_steps == updates
        assert updates < 24 or "target_kl" not in learner


def test_an_environment_that_does_not_repeat_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clframe.worlds.point_robot import PointEnvironment

    plain, drift = PointEnvironment.step, iter(np.linspace(0, 1, 10_000))

    def unrepeatable(self: PointEnvironment, action: Any) -> Any:
        self.position = self.position + next(drift) * 1e-3
        return plain(self, action)

    monkeypatch.setattr(PointEnvironment, "step", unrepeatable)
    with pytest.raises(DataError, match=r"task 'turn_0_of_2' does not repeat an episode: after "):
        killed(tmp_path, "numbers", [], every=3, after=4)
