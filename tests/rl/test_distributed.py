"""Two processes that learn by reward, each in environments of its own, do what one does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from clframe.cli.main import main

pytestmark = pytest.mark.slow(minutes=1)  # two processes that import torch, twice

WORDS = [
    *("fit", "stream=point_robot", "stream.n_tasks=2", "stream.eval_episodes=2"),
    *("stream.horizon=7", "model.hidden=[8]", "trainer.batch_size=9", "trainer.accelerator=cpu"),
    *("learner=sac", "learner.steps=31", "learner.start_steps=6", "learner.epoch_steps=8"),
    *("strategy=replay", "strategy.replay.size=10", "logger=none"),
    *("checkpoint.every_n_steps=5", "checkpoint.keep=3"),
    # Adam makes a full step of a gradient that is nothing but rounding, as units that are off have
    # it, so that two orders of summation would lead to different weights.
    "optimizer=sgd",
]


def two(words: list[str]) -> None:
    """Run a command to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "clframe", *words],
        capture_output=True, text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def end(folder: Path) -> tuple[Any, dict[str, Any]]:
    """The matrix and the last checkpoint."""
    newest = max((folder / "checkpoints").glob("*.pt"))
    state: dict[str, Any] = torch.load(newest, weights_only=True)
    return json.loads((folder / "results.json").read_text())["matrix"], state


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two processes need two CPU cores")
def test_two_processes_do_what_one_does_and_can_be_resumed(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    assert main([*WORDS, "learner.num_envs=2", f"run_dir={first}"]) == 0
    two([*WORDS, "trainer.devices=2", f"run_dir={second}"])
    one, many = end(first), end(second)
    assert one[0] == many[0]
    for name, value in one[1]["learner"].items():
        torch.testing.assert_close(many[1]["learner"][name], value, rtol=1e-3, atol=1e-4)
    mine, theirs = (state["plugins"]["interaction"] for _, state in (one, many))
    for name in ("decisions", "updates", "made", "begun"):
        assert mine[name] == theirs[name], name
    for ours, other in zip(mine["episodes"], theirs["episodes"], strict=True):
        assert ours["total"] == pytest.approx(other["total"], abs=1e-3)
        assert {**ours, "total": 0} == {**other, "total": 0}
    assert mine["decisions"] == 31
    rows = {(folder / "transitions.bin").stat().st_size for folder in (first, second)}
    assert len(rows) == 1
    # Back to the middle of the second task, whose later transitions are in the file.
    for path in sorted((second / "checkpoints").iterdir())[-4:]:
        path.unlink()
    (second / "results.json").unlink()
    two(["fit", f"resume={second}"])
    matrix, state = end(second)
    assert matrix == many[0]
    for name, value in many[1]["learner"].items():
        assert torch.equal(state["learner"][name], value), name
    assert (second / "transitions.bin").stat().st_size == rows.pop()
    assert state["files"]["transitions.bin"] == many[1]["files"]["transitions.bin"]
