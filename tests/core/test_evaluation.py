"""A row of the matrix: all tasks in one pass, and which tasks are measured when."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import clframe
from clframe.core import hooks
from clframe.core.learner import Learner
from clframe.core.plugin import Plugin
from clframe.core.stream import Task
from clframe.errors import SettingError
from clframe.hookspecs import hookimpl
from clframe.plugins.packnet import PackNet
from clframe.testing import prepare, run_built, toy_stream


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
@pytest.mark.parametrize("eval_batch_size", [7, 1000])
def test_one_pass_measures_what_single_tasks_measure(scenario: str, eval_batch_size: int) -> None:
    prepared = prepare(
        toy_stream(scenario),  # type: ignore[arg-type]
        "naive",
        {"name": "mlp", "hidden": [16]},
        trainer={"max_epochs": 3},
        evaluation={"eval_batch_size": eval_batch_size},
    )
    run_built(prepared)
    learner, tasks = prepared.learner, prepared.stream.tasks
    learner.eval()
    together = hooks.evaluate_tasks(learner, tasks)
    assert together == {task.name: hooks.evaluate_task(learner, task) for task in tasks}
    assert len({measures["accuracy"] for measures in together.values()}) > 1


class Own(clframe.Plugin):
    """Predicts in a way of its own."""

    @clframe.hookimpl
    def predict(self, learner: Learner, x: Tensor, task: Task) -> Tensor:
        return -learner(x, torch.full((len(x),), task.index))


@pytest.mark.parametrize("strategy", [Own(), [Own(), PackNet(post_epochs=1)]])
def test_a_plugin_with_a_way_of_its_own_is_asked_for_every_task(strategy: Any) -> None:
    stream = toy_stream("task")
    prepared = prepare(stream, strategy, trainer={"max_epochs": 1})
    run_built(prepared)
    assert hooks.evaluate_tasks(prepared.learner, stream.tasks) == {}


def test_packnet_measures_tasks_of_equal_weights_in_one_pass() -> None:
    """Packs of one task and of two, and two tasks that are not learned yet."""
    stream = toy_stream("task", n_experiences=5)
    first, second = stream.experiences[:2]
    both = dataclasses.replace(second, tasks=(second.tasks[0], stream.tasks[2]))
    short = dataclasses.replace(stream, experiences=[first, both])
    prepared = prepare(
        short,
        PackNet(post_epochs=1),
        {"name": "mlp", "hidden": [16]},
        trainer={"max_epochs": 3},
    )
    run_built(prepared)
    learner, tasks = prepared.learner, stream.tasks
    learner.eval()
    weights = [p.detach().clone() for p in learner.parameters()]
    passes: list[int] = []
    hook = learner.model.register_forward_hook(lambda *_: passes.append(1))
    features = learner.model.features.register_forward_hook(lambda *_: passes.append(1))  # type: ignore[union-attr]
    together = hooks.evaluate_tasks(learner, tasks)
    assert len(passes) == 3
    hook.remove()
    features.remove()
    assert together == {task.name: hooks.evaluate_task(learner, task) for task in tasks}
    assert len({measures["accuracy"] for measures in together.values()}) > 2
    assert all(torch.equal(a, b) for a, b in zip(weights, learner.parameters(), strict=True))
    assert any(plugin.name == "packnet" for plugin in learner.plugins.ordered)


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


def test_tasks_to_come_can_be_left_out() -> None:
    def values(which: str) -> np.ndarray:
        stream = toy_stream("task")
        chosen: dict[str, Any] = {"evaluate_tasks": which, "check_val_every_n_epoch": 1}
        result = clframe.fit(stream, max_epochs=1, run_dir=False, progress=False, **chosen)
        assert result.metrics["libero"]["nbt"] is not None
        return result.matrix.values

    whole, less = values("all"), values("learned")
    known = ~np.isnan(less)
    assert (whole[known] == less[known]).all()
    assert known.tolist() == [
        [True, False, False],
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
    with pytest.raises(SettingError, match="evaluate_tasks"):
        clframe.fit(toy_stream(), evaluate_tasks="past", run_dir=False)


def test_what_is_measured_while_learning_counts_as_evaluation() -> None:
    clock = 0.0

    class Slow(Plugin):
        """Takes its time to learn and to measure."""

        name = "slow"

        @hookimpl(wrapper=True)
        def evaluate_task(self) -> Generator[None, Any, Any]:
            """Ten seconds for a task."""
            nonlocal clock
            clock += 10.0
            return (yield)

        @hookimpl
        def after_epoch(self) -> None:
            """A second for an epoch."""
            nonlocal clock
            clock += 1.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clframe.utils.timing.time.perf_counter", lambda: clock)
        result = clframe.fit(
            toy_stream("task"),
            strategy=[Slow()],
            max_epochs=2,
            check_val_every_n_epoch=1,
            run_dir=False,
            progress=False,
        )
    # Three points of each of three curves, and four rows of three tasks.
    assert result.timing["eval_seconds"] == 210.0
    assert result.timing["train_seconds"] == 6.0
    assert result.timing["eval_share"] == 210 / 216
