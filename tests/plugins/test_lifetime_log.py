"""The run as a lifetime in l2logger's format: what is written, and that a resumed run agrees."""

from __future__ import annotations

import csv
import datetime
from pathlib import Path
from typing import Any

import pytest
import torch

import clframe
from clframe import DataError, Plugin, hookimpl
from clframe.core.stream import Task
from clframe.metrics.l2 import evaluate
from clframe.plugins.builtin.lifetime_log import LifetimeLog
from clframe.plugins.cumulative import Cumulative
from clframe.testing import check_plugin, interrupted_run, prepare_toy, toy_run, toy_stream


def noon() -> datetime.datetime:
    return datetime.datetime(2024, 1, 1, 12)


def log_in(path: Path) -> LifetimeLog:
    return LifetimeLog(str(path), resume=True, clock=noon)


def files(path: Path) -> dict[str, bytes]:
    return {
        file.relative_to(path).as_posix(): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def rows(path: Path, block: str, worker: str = "worker-default") -> list[dict[str, str]]:
    with (path / worker / "data-log.tsv").open(encoding="utf-8") as file:
        found = list(csv.DictReader(file, delimiter="\t"))
    return [row for row in found if f"{row['block_num']}-{row['block_type']}" == block]


def blocks_of(path: Path) -> set[str]:
    with (path / "worker-default" / "data-log.tsv").open(encoding="utf-8") as file:
        found = csv.DictReader(file, delimiter="\t")
        return {f"{row['block_num']}-{row['block_type']}" for row in found}


def without_time(path: Path) -> dict[str, list[dict[str, str]]]:
    blocks = {}
    for block in blocks_of(path):
        blocks[block] = rows(path, block)
        for row in blocks[block]:
            row.pop("timestamp")
    return blocks


class StopAt(Plugin):
    """Ends the run in the middle of learning, as a killed process would."""

    def __init__(self, experience: int = 1, steps: int = 3) -> None:
        self.experience = experience
        self.steps = steps

    @hookimpl
    def after_step(self, learner: clframe.Learner) -> None:
        if len(learner.seen) == self.experience:
            self.steps -= 1
            if self.steps == 0:
                raise KeyboardInterrupt


def test_keeps_the_contract(tmp_path: Path) -> None:
    check_plugin(log_in(tmp_path))


def test_blocks_and_rows(tmp_path: Path) -> None:
    stream = toy_stream("class")
    result, _ = toy_run([log_in(tmp_path)], stream)
    blocks = [f"{i}-{'train' if i % 2 else 'test'}" for i in range(7)]
    assert [path.name for path in (tmp_path / "worker-default").iterdir()] == ["data-log.tsv"]
    assert blocks_of(tmp_path) == set(blocks)
    for number, values in enumerate(result.matrix.values):
        written = rows(tmp_path, f"{2 * number}-test")
        assert [row["task_name"] for row in written] == [
            "task0_plain",
            "task1_plain",
            "task2_plain",
        ]
        assert [float(row["accuracy"]) for row in written] == values.tolist()
    learned = rows(tmp_path, "3-train")
    # 80 samples in batches of 16, two epochs.
    assert [row["task_name"] for row in learned] == ["task1_plain"] * 10
    values = [float(row["accuracy"]) for row in learned]
    assert values[-1] > 0.8
    assert all(value * 16 == round(value * 16) for value in values)
    numbers = [int(row["exp_num"]) for block in blocks for row in rows(tmp_path, block)]
    assert numbers == list(range(len(numbers)))
    evaluated = evaluate(tmp_path)
    assert evaluated.num_lx == 30
    assert evaluated.num_ex == 12
    assert evaluated.scenario["scenario_type"] == "condensed"


def test_training_accuracy_is_that_of_the_batches(tmp_path: Path) -> None:
    """Against a plugin that reads every batch at once, more steps than are folded at a time."""

    class Reads(Plugin):
        def __init__(self) -> None:
            self.values: list[float] = []

        @hookimpl
        def after_step(self, step: clframe.Step) -> None:
            right = step.outputs[0].argmax(1) == step.batch.y
            self.values.append(float(right.double().mean()))

    reads = Reads()
    stream = toy_stream("class", n_experiences=1, samples=400)
    toy_run([log_in(tmp_path), reads], stream, max_epochs=1, batch_size=3)
    assert len(reads.values) == 267
    written = [float(row["accuracy"]) for row in rows(tmp_path, "1-train")]
    assert written == pytest.approx(reads.values, abs=1e-12)


def test_only_the_experiences_own_tasks_count(tmp_path: Path) -> None:
    """With all earlier data joined in, rows are still about the task that is being learned."""
    toy_run([Cumulative(), log_in(tmp_path)], toy_stream("class"), max_epochs=1, batch_size=8)
    last = rows(tmp_path, "5-train")
    assert {row["task_name"] for row in last} == {"task2_plain"}
    assert 20 <= len(last) <= 30  # 240 samples in 30 batches, some without a sample of task 2


def test_an_interrupted_run_writes_the_same_bytes(tmp_path: Path) -> None:
    stream = toy_stream("class")
    toy_run([log_in(tmp_path / "whole")], stream)
    interrupted_run([log_in(tmp_path / "parts")], stream)
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


@pytest.mark.parametrize("experience", [0, 1])
def test_a_run_killed_while_learning_is_continued(tmp_path: Path, experience: int) -> None:
    stream = toy_stream("class")
    given: dict[str, Any] = {"max_steps": 5, "batch_size": 16, "progress": False, "logger": None}
    clframe.fit(stream, [], run_dir=tmp_path / "whole", **given)
    broken = tmp_path / "broken"
    with pytest.raises(KeyboardInterrupt):
        clframe.fit(stream, [StopAt(experience)], run_dir=broken, **given)
    # What a kill in the middle of writing a block leaves behind.
    with (broken / "log" / "worker-default" / "data-log.tsv").open("a") as file:
        file.write("7\t99\tworker-def")
    allow = ["strategy.stopat", "plugins"]
    result = clframe.fit(stream, [], resume=broken, resume_allow=allow, **given)
    assert len(result.matrix.rows) == 4
    assert without_time(broken / "log") == without_time(tmp_path / "whole" / "log")


def test_looking_at_a_run_leaves_its_log_alone(tmp_path: Path) -> None:
    stream = toy_stream("class")
    given: dict[str, Any] = {"max_epochs": 1, "progress": False, "logger": None}
    clframe.fit(stream, [], run_dir=tmp_path / "run", **given)
    before = files(tmp_path / "run" / "log")
    clframe.fit(stream, [], resume=tmp_path / "run", **given)
    assert files(tmp_path / "run" / "log") == before


def test_a_log_of_another_run_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run" / "log" / "worker-default" / "0-train").mkdir(parents=True)
    with pytest.raises(DataError, match="already holds a log"):
        clframe.fit(toy_stream(), [], run_dir=tmp_path / "run", progress=False)


def test_a_measure_that_outputs_do_not_tell_has_the_values_measured(tmp_path: Path) -> None:
    """A policy's success cannot be read from a batch: curves, else the value after learning."""

    class Success(Plugin):
        @hookimpl(tryfirst=True)
        def evaluate_task(self, learner: clframe.Learner, task: Task) -> dict[str, float]:
            return {"success rate": 0.25 + learner.epoch / 8}

    stream = toy_stream("domain", n_experiences=2)
    toy_run([Success(), log_in(tmp_path / "a")], stream)
    assert [row["success-rate"] for row in rows(tmp_path / "a", "1-train")] == ["0.5"]
    toy_run([Success(), log_in(tmp_path / "b")], stream, check_val_every_n_epoch=1)
    assert len(rows(tmp_path / "b", "1-train")) == 2
    assert evaluate(tmp_path / "b").measure == "success-rate"


def test_a_step_costs_little(tmp_path: Path) -> None:
    """What is kept of a step is the prediction, not the graph or the outputs."""
    log = log_in(tmp_path)
    prepared = prepare_toy([log], toy_stream())
    assert prepared.folder is None
    outputs = torch.randn(4, 3, requires_grad=True)
    batch = clframe.Batch(
        torch.zeros(4, 2), torch.zeros(4, dtype=torch.long), torch.zeros(4).long()
    )
    step = clframe.Step([batch], [outputs], [None])
    log.measure = "accuracy"
    log.after_step(step)
    assert all(not tensor.requires_grad for tensor in log._steps[0])
    assert log._steps[0][0].shape == (4,)
