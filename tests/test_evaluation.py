"""A row of the matrix: all tasks in one pass, and which tasks are measured when."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import clframe
from clframe import hooks
from clframe.api import prepare_run
from clframe.run import run
from clframe.testing import toy_stream


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
@pytest.mark.parametrize("eval_batch_size", [7, 1000])
def test_one_pass_measures_what_single_tasks_measure(scenario: str, eval_batch_size: int) -> None:
    prepared = prepare_run(
        toy_stream(scenario),  # type: ignore[arg-type]
        "naive",
        {"name": "mlp", "hidden": [16]},
        trainer={"max_epochs": 3, "eval_batch_size": eval_batch_size},
    )
    run(*prepared)
    learner, tasks = prepared.learner, prepared.stream.tasks
    learner.eval()
    together = hooks.evaluate_tasks(learner, tasks)
    assert together == {task.name: hooks.evaluate_task(learner, task) for task in tasks}
    assert len({measures["accuracy"] for measures in together.values()}) > 1


def test_a_plugin_with_a_way_of_its_own_is_asked_for_every_task() -> None:
    stream = toy_stream("task")
    prepared = prepare_run(stream, {"packnet": {"post_epochs": 1}}, trainer={"max_epochs": 1})
    run(*prepared)
    assert hooks.evaluate_tasks(prepared.learner, stream.tasks) == {}


def test_past_tasks_can_be_measured_less_often(tmp_path: Path) -> None:
    def values(every: int, folder: str) -> np.ndarray:
        result = clframe.fit(
            "split_mnist",
            model={"name": "mlp", "hidden": [16]},
            max_steps=5,
            evaluate_every=every,
            run_dir=tmp_path / folder,
            progress=False,
        )
        return result.matrix.values

    whole, less = values(1, "whole"), values(2, "less")
    known = ~np.isnan(less)
    assert (whole[known] == less[known]).all()
    expected = np.ones((6, 5), dtype=bool)
    expected[1], expected[3] = np.eye(5)[0], np.eye(5)[2]
    assert (known == expected).all()
    kept = json.loads((tmp_path / "less" / "results.json").read_text())
    assert kept["matrix"]["values"][1] == [whole[1, 0], None, None, None, None]
    assert kept["metrics"]["gem"]["acc"] == pytest.approx(whole[5].mean())
