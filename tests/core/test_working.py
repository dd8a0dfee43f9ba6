"""How far the work at hand is: the hook ``on_progress``, and what the run folder says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clframe
from clframe import Plugin, hookimpl
from clframe.robot.episodes import forget, run_episodes
from clframe.testing import toy_stream
from clframe.training import loop
from clframe.utils.processes import WorkerPool


class Watches(Plugin):
    """Keeps all words, and what the run folder said at the same time."""

    def __init__(self) -> None:
        self.words: list[tuple[str, int, int | None]] = []
        self.status: list[dict[str, Any]] = []

    @hookimpl(trylast=True)
    def on_progress(self, learner: Any, unit: str, done: int, total: int | None) -> None:
        """Keep it."""
        self.words.append((unit, done, total))
        if learner.state.run_dir is not None:
            path = learner.state.run_dir / "status.json"
            self.status.append(json.loads(path.read_text()))


def test_a_run_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_REPORT_EVERY", 0.0)  # a report after every step
    watches = Watches()
    run = {"max_epochs": 2, "progress": False, "logger": None, "trainer": {"batch_size": 16}}
    result = clframe.fit(toy_stream(), [watches, "ewc"], run_dir=tmp_path / "run", **run)
    stream = toy_stream()
    per_epoch = -(-len(stream.experiences[0].data) // 16)
    steps = [(done, total) for unit, done, total in watches.words if unit == "steps"]
    assert steps[: 2 * per_epoch] == [(n, 2 * per_epoch) for n in range(1, 2 * per_epoch + 1)]
    assert len(steps) == 2 * per_epoch * len(stream)
    rows = [total for unit, _, total in watches.words if unit == "tasks"]
    assert rows == [len(stream.tasks)] * (len(stream) + 1)
    # The folder says the same: whenever the run turns to something else, and now and then.
    places = {(said["phase"], said.get("name")) for said in watches.status}
    assert {("learning", experience.name) for experience in stream} <= places
    assert watches.status[-1]["left"] is not None
    assert not (tmp_path / "run/status.json").exists()  # it has finished
    # Nothing of the run depends on it.
    alone = clframe.fit(stream, "ewc", run_dir=False, **run)
    assert np.array_equal(result.matrix.values, alone.matrix.values, equal_nan=True)
    events = (tmp_path / "run/events.jsonl").read_text().splitlines()
    kinds = [json.loads(line) for line in events]
    assert all(e["seconds"] > 0 for e in kinds if e["event"] in ("experience", "evaluation"))


class Ends:
    """An environment whose episodes take as many steps as their seeds say."""

    def reset(self, *, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        self.left = seed
        return {"state": np.zeros(2, np.float32)}, {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.left -= 1
        return {"state": np.zeros(2, np.float32)}, 0.0, self.left == 0, False, {"success": False}


def test_every_episode_that_ends_is_told() -> None:
    told: list[int] = []
    outcomes = run_episodes(
        WorkerPool(0),
        "test/ends",
        Ends,  # type: ignore[arg-type]
        [3, 1, 4, 1, 5],
        lambda windows, begun: np.zeros((len(begun), 1), np.float32),
        horizon=9,
        num_envs=2,
        on_end=told.append,
    )
    forget("test/ends")
    assert [outcome.steps for outcome in outcomes] == [3, 1, 4, 1, 5]
    assert told == [1, 2, 3, 4, 5]
