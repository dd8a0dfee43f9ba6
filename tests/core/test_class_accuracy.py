"""Classes of unequal size: their sizes, the worst of them and balanced accuracy are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import clframe
from clframe.cli.main import main
from clframe.core.results import Result
from clframe.evaluation.class_sizes import class_line, is_unequal, listed_counts, training_counts
from clframe.report.compare import compare
from clframe.runs.reader import read_run

SIZES = (60, 25, 90, 12)
NAMES = ("apple", "bolt", "cup", "drill")
WORDS: dict[str, Any] = {"model": "mlp", "progress": False, "logger": None, "max_epochs": 3}


def _stream(sizes: tuple[int, ...] = SIZES, **settings: Any) -> clframe.Stream:
    """Classes that are easy to tell apart, but for the last: it looks like the one before."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.cat([torch.full((n,), k) for k, n in enumerate(sizes)])
    x = 0.1 * torch.randn(len(labels), len(sizes), generator=generator)
    x[torch.arange(len(labels)), labels.clamp(max=len(sizes) - 2)] += 3
    settings = {"n_experiences": 2, "class_names": NAMES[: len(sizes)], **settings}
    return clframe.stream_from((x, labels), **settings)


def _by_hand(result: Result, stream: clframe.Stream) -> dict[int, tuple[int, int]]:
    """Right predictions and samples of each class, counted one by one."""
    assert result.model is not None
    found: dict[int, tuple[int, int]] = {}
    model = result.model.eval()
    for task in stream.tasks:
        for number in range(len(task.data)):
            batch = next(task.data.batches(torch.tensor([number]), 1))
            label = int(batch.y)
            right, n = found.get(label, (0, 0))
            found[label] = (right + int(model(batch.x).argmax(1) == label), n + 1)
    return found


def test_a_class_that_is_never_right_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    stream = _stream()
    result = clframe.fit(stream, "er", **WORDS)
    counted = result.measured["classes"]
    by_hand = _by_hand(result, stream)
    assert counted["names"] == list(NAMES)
    assert [*zip(counted["right"], counted["tested"], strict=True)] == [
        by_hand[k] for k in range(len(SIZES))
    ]
    numbers = result.metrics["classes"]
    shares = [right / n for right, n in by_hand.values()]
    assert numbers["balanced_accuracy"] == pytest.approx(sum(shares) / len(shares))
    assert numbers["worst_accuracy"] == min(shares)
    assert numbers["worst_class"] == NAMES[shares.index(min(shares))]
    assert numbers["worst_accuracy"] < 0.5 < result.metrics["gem"]["acc"]
    # Once, before anything is learned, and beside the matrix.
    warnings = [line for line in capsys.readouterr().err.splitlines() if "differ in size" in line]
    counts = training_counts(stream)
    assert warnings == [
        f"clframe: classes differ in size: cup {counts[2]}, apple {counts[0]}, bolt {counts[1]}, "
        f"drill {counts[3]}"
    ]
    assert len(warnings[0]) <= 80
    assert f"worst class: {numbers['worst_class']} " in str(result)
    assert "balanced accuracy" in str(result)
    assert max(map(len, str(result).splitlines())) <= 80


def test_classes_of_one_size_are_not_mentioned(capsys: pytest.CaptureFixture[str]) -> None:
    result = clframe.fit(_stream((50, 50, 50)), "naive", **WORDS)
    assert "balanced_accuracy" in result.metrics["classes"]
    assert "worst class" not in str(result)
    assert "differ in size" not in capsys.readouterr().err


@pytest.mark.parametrize("scenario", ["class", "task", "domain"])
def test_every_way_to_measure_counts_the_same(scenario: str) -> None:
    """All tasks in one pass, one task after the other, and a stack of models."""
    whole = clframe.fit(_stream(scenario=scenario), "naive", **WORDS)
    looks = clframe.fit(_stream(scenario=scenario), [_Predicts()], **WORDS)
    stacked = clframe.fit(_stream(scenario=scenario), "naive", batched=True, **WORDS)
    assert whole.measured["classes"] == looks.measured["classes"]
    assert [*whole.measured["classes"]["tested"]] == [*stacked.measured["classes"]["tested"]]
    assert sum(stacked.measured["classes"]["right"]) == round(
        sum(
            stacked.matrix.values[-1][k] * len(task.data)
            for k, task in enumerate(_stream(scenario=scenario).tasks)
        )
    )


class _Predicts(clframe.Plugin):
    """Predicts as the model does, so that tasks are measured one after the other."""

    name = "predicts"

    @clframe.hookimpl
    def predict(self, learner: clframe.Learner, x: Any, task: clframe.Task) -> torch.Tensor:
        """Return the model's scores."""
        scores: torch.Tensor = learner(x, task)
        return scores


def test_the_command_the_comparison_and_the_page_show_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    clframe.fit(_stream(), "er", run_dir=run, **WORDS)
    content = json.loads((run / "results.json").read_text())
    line = class_line([Result.load(run)])
    assert line is not None
    assert f"worst class: {content['metrics']['classes']['worst_class']} " in line
    assert [note for table in compare([read_run(run)]) for note in table.notes] == [f"er: {line}."]
    assert main(["report", str(run)]) == 0
    page = (run / "report.html").read_text()
    assert "Worst class: " in page
    assert "training samples" in page


def test_a_resumed_run_has_the_counts_of_its_last_row(tmp_path: Path) -> None:
    result = clframe.fit(_stream(), "naive", run_dir=tmp_path / "run", **WORDS)
    (tmp_path / "run" / "results.json").unlink()
    again = clframe.fit(_stream(), "naive", resume=tmp_path / "run", **WORDS)
    assert again.measured["classes"] == result.measured["classes"]


def test_several_seeds_at_once_count_as_one_seed_does(tmp_path: Path) -> None:
    words = ["fit", "max_epochs=1", "model.hidden=[8]", "logger=none", "strategy=naive"]
    words += ["limit_train_batches=2", "seeds=[0,1]", f"run_dir={tmp_path / 'runs'}"]
    assert main(words) == 0
    found = sorted((tmp_path / "runs").rglob("results.json"))
    assert len(found) == 2
    for path in found:
        content = json.loads(path.read_text())
        counted = content["measured"]["classes"]
        assert len(counted["names"]) == 10
        row, samples = content["matrix"]["values"][-1], content["measured"]["evaluation"]["samples"]
        right = sum(value * n for value, n in zip(row, samples.values(), strict=True))
        assert sum(counted["right"]) == round(right)


def test_many_classes_are_cut_short() -> None:
    counts = {unit: 1000 - unit for unit in range(0, 900, 30)}
    text = listed_counts(counts, {0: "a class with a name that nobody can read to its end"})
    assert text.startswith("a class with a name… 1,000, 30 970, 60 940, ... (24 more), ")
    assert text.endswith("870 130")
    assert not is_unequal([])
    assert not is_unequal([5])
