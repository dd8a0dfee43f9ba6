"""What a run does for an experience, and the files it leaves, do not grow with the stream."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

import clframe
from clframe import Capabilities, Plugin, hookimpl
from clframe.metrics.l2 import evaluate
from clframe.testing import toy_stream

LENGTH = 80


class Calls(Plugin):
    """Counts the function calls of each experience: what it costs, on any machine."""

    capabilities = Capabilities(evaluator=True)

    def __init__(self) -> None:
        self.now = 0
        self.counts: list[int] = []

    def count(self, frame: Any, event: str, argument: Any) -> None:
        self.now += event in ("call", "c_call")

    @hookimpl(tryfirst=True)
    def before_experience(self) -> None:
        self.counts.append(self.now)


def learn(place: Path, plugins: list[Plugin], n: int, **settings: Any) -> Path:
    """A run of many short experiences that evaluates the current task only."""
    clframe.fit(
        toy_stream("domain", n_experiences=n, samples=4),
        plugins,
        {"name": "mlp", "hidden": [4]},
        **{"max_epochs": 1, "batch_size": 8, "evaluate_every": n, **settings},
        run_dir=place,
        progress=False,
    )
    return place


def test_an_experience_costs_the_same_at_the_end_of_a_long_stream(tmp_path: Path) -> None:
    for tasks in ("all", "learned"):
        calls = Calls()
        sys.setprofile(calls.count)
        try:
            learn(tmp_path / tasks, [calls], LENGTH, evaluate_tasks=tasks)
        finally:
            sys.setprofile(None)
        taken = [b - a for a, b in zip(calls.counts, calls.counts[1:], strict=False)]
        # The time left is estimated from the last 20 experiences.
        first, last = statistics.median(taken[22:32]), statistics.median(taken[-10:])
        assert last <= 1.1 * first, (tasks, taken)


def test_a_run_leaves_a_handful_of_files_however_long_it_is(tmp_path: Path) -> None:
    run = learn(tmp_path / "run", [], LENGTH)
    files = sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file())
    assert len(files) <= 16, files
    assert "log/worker-default/data-log.tsv" in files
    assert evaluate(run / "log").num_lx == LENGTH
