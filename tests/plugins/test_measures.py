"""Evaluators that are chosen beside a method: each against an independent calculation."""

from __future__ import annotations

import copy
import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import clframe
from clframe.cli.main import main
from clframe.core.learner import Learner
from clframe.core.step import Step
from clframe.core.stream import Task
from clframe.plugins.cost import Cost
from clframe.plugins.online import Online
from clframe.plugins.plasticity import Plasticity, ranks, scores, watching
from clframe.plugins.predictions import Predictions
from clframe.plugins.replay import Replay
from clframe.run import run
from clframe.testing import (
    check_plugin,
    killed_run,
    prepare,
    prepare_toy,
    run_built,
    toy_run,
    toy_stream,
)
from tests.helpers import methods

MEASURES = ("cost", "online", "plasticity", "predictions")


def all_measures() -> list[clframe.Plugin]:
    return [Online(), Plasticity(samples=30), Predictions(bins=5, top_k=2), Cost()]


def test_every_measure_is_here() -> None:
    assert methods.MEASURES == MEASURES


def weights_of(learner: Learner) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in learner.state_dict().items()}


def assert_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


class Dropping(nn.Module):
    """Batch statistics and dropout, which measuring must not move."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3)
        )
        self.head = nn.Linear(16, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.head(self.features(x))
        return logits


@pytest.mark.parametrize("scenario", ["class", "task", "domain"])
def test_training_is_the_same_with_and_without_measures(scenario: Any) -> None:
    def learned(measures: list[clframe.Plugin], **trainer: Any) -> Learner:
        torch.manual_seed(0)
        plugins = [Replay(size=20), *measures]
        settings = {"max_epochs": 2, "batch_size": 16, **trainer}
        stream = toy_stream(scenario)
        built = prepare(stream, plugins, Dropping(stream.n_outputs), **settings)
        run_built(built)
        return built.learner

    plain = learned([])
    measured = learned(all_measures(), evaluate_every_n_steps=2, evaluate_samples=9)
    assert_equal(weights_of(plain), weights_of(measured))
    assert torch.equal(plain.generator.get_state(), measured.generator.get_state())


@pytest.mark.parametrize("plugin", all_measures(), ids=lambda plugin: plugin.name)
def test_measures_keep_the_contract_of_plugins(plugin: clframe.Plugin) -> None:
    check_plugin(plugin)


def test_a_killed_run_has_measured_the_same() -> None:
    plugins = [Replay(size=20, fill="step"), *all_measures()]
    trainer: dict[str, Any] = {"evaluate_every_n_steps": 2, "evaluate_samples": 30}
    whole = prepare_toy(copy.deepcopy(plugins), toy_stream(samples=24), **trainer)
    first = run(whole.learner, whole.stream, "toy")
    again, learner = killed_run(plugins, toy_stream(samples=24), every=2, after=5, **trainer)
    assert_equal(weights_of(whole.learner), weights_of(learner))
    assert first.measured == again.measured
    names = ("continual", "online", "plasticity", "predictions", "cost")
    assert {name: first.metrics[name] for name in names} == {
        name: again.metrics[name] for name in names
    }


class Notes(clframe.Plugin):
    """Notes labels and outputs of each step of the first epochs."""

    def __init__(self) -> None:
        self.hits: dict[int, list[bool]] = {}

    @clframe.hookimpl
    def after_step(self, learner: Learner, step: Step) -> None:
        """Read them."""
        if learner.epoch == 0 and learner.experience is not None:
            outputs, labels = step.outputs[0].detach().numpy(), step.batch.y.numpy()
            own = step.batch.task.numpy() == learner.experience.index
            hits = (outputs.argmax(1) == labels)[own]
            self.hits.setdefault(learner.experience.index, []).extend(hits.tolist())


@pytest.mark.parametrize("method", ["replay", "cumulative"])
def test_online_accuracy_is_that_of_each_sample_before_it_is_learned(method: str) -> None:
    notes = Notes()
    method_plugin = methods.make(method)
    result, _ = toy_run([method_plugin, Online(), notes], toy_stream(), max_epochs=2)
    each = [float(np.mean(notes.hits[i])) for i in range(3)]
    assert [len(notes.hits[i]) for i in range(3)] == [80, 80, 80]
    assert result.metrics["online"]["accuracy_k"] == each
    assert result.metrics["online"]["accuracy"] == pytest.approx(np.mean(each))
    assert 0 < result.metrics["online"]["accuracy"] < 1


# ---------------------------------------------------------------- plasticity


def test_ranks_are_those_of_numpy() -> None:
    features = np.random.default_rng(0).normal(size=(40, 12)) @ np.diag(np.linspace(1, 0, 12))
    sigma = np.linalg.svd(features, compute_uv=False)
    share = sigma / sigma.sum()
    found = ranks(torch.from_numpy(features), 0.05)
    assert found["srank"] == 1 + int(np.argmax(np.cumsum(share) >= 0.95))
    entropy = -sum(p * math.log(p) for p in share if p > 0)
    assert found["effective_rank"] == pytest.approx(math.exp(entropy))
    assert found["stable_rank"] == pytest.approx((features**2).sum() / sigma[0] ** 2)
    assert ranks(torch.zeros(4, 3), 0.01) == dict.fromkeys(found, 0.0)
    one = ranks(torch.ones(5, 4), 0.01)
    assert list(one.values()) == pytest.approx([1, 1, 1])


def test_dormant_units_are_those_of_the_definition() -> None:
    result, learner = toy_run([Plasticity(samples=50, tau=0.3)], toy_stream())
    data = learner.stream.experiences[-1].data
    places = np.linspace(0, len(data) - 1, 50).round().astype(int)
    x = data.gather(torch.arange(len(data))).numpy()[places]
    layer = learner.model.features[1]  # type: ignore[index,union-attr]
    hidden = np.maximum(x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy(), 0)
    activity = np.abs(hidden).mean(0)
    assert result.metrics["plasticity"]["dormant"] == (activity / activity.mean() <= 0.3).mean()
    assert 0 < result.metrics["plasticity"]["dormant"] < 1
    norm = math.sqrt(sum(float((p.detach() ** 2).sum()) for p in learner.model.parameters()))
    assert result.metrics["plasticity"]["weight_norm"] == pytest.approx(norm, rel=1e-5)
    assert len(result.metrics["plasticity"]["srank_k"]) == 3


def test_channels_tokens_and_shared_modules_are_units() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.relu = nn.Conv2d(1, 3, 3), nn.Conv2d(3, 5, 3), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            """Two layers through one activation."""
            y: Tensor = self.relu(self.second(self.relu(self.first(x))))
            return y

    torch.manual_seed(0)
    model, x = Shared(), torch.randn(7, 1, 8, 8)
    with torch.no_grad(), watching(model) as totals:
        model(x[:4])
        model(x[4:])
    with torch.no_grad():
        first = model.first(x).relu()
        second = model.second(first).relu()
    for total, layer in zip(totals.values(), (first, second), strict=True):
        assert np.allclose(total, layer.abs().mean((2, 3)).sum(0), atol=1e-5)
    tokens = nn.Sequential(nn.GELU())
    with torch.no_grad(), watching(tokens) as totals:
        tokens(torch.ones(2, 3, 4))
    assert [len(total) for total in totals.values()] == [4]
    assert scores(torch.zeros(3)).tolist() == [0, 0, 0]


def test_reinitialized_dead_units_are_found_as_dormant() -> None:
    """The known effect: units that are dead by their bias are the dormant ones."""
    built = prepare_toy([Plasticity(samples=40)], toy_stream(), max_epochs=1)
    with torch.no_grad():
        built.learner.model.features[1].bias[:4] = -1e4  # type: ignore[index,union-attr]
    found = run_built(built).metrics["plasticity"]
    assert found["dormant"] >= 4 / 16


# ---------------------------------------------------------------- predictions


def expected_predictions(learner: Learner, tasks: list[Task], bins: int, k: int) -> dict[str, Any]:
    """Confusion, calibration error and top-k by loops over samples."""
    n = learner.stream.n_outputs
    confusion = np.zeros((n, n), int)
    binned: list[list[tuple[bool, float]]] = [[] for _ in range(bins)]
    within, samples = 0, 0
    learner.eval()
    for task in tasks:
        data = task.data
        with torch.no_grad():
            x = data.gather(torch.arange(len(data)))
            logits = learner.predict(x, task).double().numpy()
        for line, label in zip(logits, data.labels.tolist(), strict=True):
            p = np.exp(line - line.max())
            p /= p.sum()
            guess = int(line.argmax())
            confusion[label, guess] += 1
            place = next(b for b in range(bins) if p.max() <= (b + 1) / bins + 1e-15)
            binned[place].append((guess == label, float(p.max())))
            within += label in np.argsort(-line, kind="stable")[:k]
            samples += 1
    error = sum(abs(sum(hit for hit, _ in b) - sum(c for _, c in b)) for b in binned) / samples
    rates = [confusion[i, i] / confusion[i].sum() for i in range(n) if confusion[i].sum()]
    return {"confusion": confusion.tolist(), "ece": error, "top_k": within / samples,
            "class_mean": np.mean(rates), "class_worst": min(rates)}  # fmt: skip


@pytest.mark.parametrize("scenario", ["class", "task", "domain"])
def test_predictions_are_counted_as_by_hand(scenario: Any) -> None:
    result, learner = toy_run([Predictions(bins=7, top_k=2)], toy_stream(scenario), max_epochs=1)
    expected = expected_predictions(learner, list(learner.stream.tasks), 7, 2)
    measured, found = result.measured["predictions"], result.metrics["predictions"]
    assert measured["confusion"]["exp2"] == expected["confusion"]
    for name in ("ece", "top_k", "class_mean", "class_worst"):
        assert found[name] == pytest.approx(expected[name], abs=1e-9), name
    assert found["ece"] > 0
    assert len(found["ece_k"]) == 3
    by_class = [a for a in measured["class_accuracy"]["exp2"] if a is not None]
    assert np.mean(by_class) == pytest.approx(found["class_mean"])


def test_predictions_of_a_nearest_mean_are_its_own() -> None:
    result, _ = toy_run([methods.make("ncm"), Predictions()], toy_stream())
    rows = result.measured["predictions"]["confusion"]
    for row, values in zip(result.matrix.rows[1:], result.matrix.values[1:], strict=True):
        square = np.asarray(rows[row])
        learned = int(row[-1]) + 1
        right = np.diag(square).sum() / square.sum()
        assert right == pytest.approx(np.mean(values[:learned]))


# ---------------------------------------------------------------- cost


def test_operations_are_those_of_the_layers() -> None:
    stream = toy_stream(samples=32)
    found = toy_run([Cost()], stream, max_epochs=1)[0].metrics["cost"]
    # Two layers, 8 x 16 and 16 x 6; no gradient for the inputs of the first.
    per_sample = 2 * (8 * 16 + 16 * 6) * 2 + 2 * 16 * 6
    assert found["train_flops_k"] == [per_sample * 64] * 3
    assert found["train_flops"] == per_sample * 64 * 3
    assert (found["state_bytes"], found["held_bytes"]) == (0, 0)
    replayed = toy_run([Replay(size=20), Cost()], stream, max_epochs=1)[0].metrics["cost"]
    assert replayed["train_flops_k"] == [per_sample * 64, per_sample * 128, per_sample * 128]


def test_bytes_are_those_of_buffers_and_teachers() -> None:
    result, learner = toy_run([Replay(size=20), Cost()], toy_stream())
    buffer = next(p for p in learner.plugins.ordered if isinstance(p, Replay)).buffer
    own = buffer.inputs.nbytes + sum(column.nbytes for column in buffer.columns.values())
    assert result.metrics["cost"]["held_bytes"] == own
    assert 20 * 8 * 4 < result.metrics["cost"]["state_bytes"] <= own
    lwf, learner = toy_run([methods.make("lwf"), Cost()], toy_stream())
    model = sum(p.nbytes for p in learner.model.parameters())
    assert lwf.metrics["cost"]["held_bytes"] >= model
    passes = toy_run([methods.make("ncm"), Cost()], toy_stream())[0].metrics["cost"]
    assert passes["train_flops_k"][1:] == [None, None]
    with pytest.raises(clframe.PluginError, match=r"trainer\.compile"):
        toy_run([Cost()], toy_stream(), compile=True)


# ---------------------------------------------------------------- records


def test_measures_are_no_part_of_the_strategys_name_and_reach_all_records(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    result = clframe.fit(
        toy_stream(),
        "replay+online+plasticity+predictions+cost",
        {"name": "mlp", "hidden": [16]},
        max_epochs=2,
        batch_size=16,
        evaluate_every_n_steps=3,
        evaluate_samples=20,
        logger=["csv", "tensorboard"],
        run_dir=folder,
        progress=False,
    )
    assert result.strategy == "replay"
    assert (
        clframe.fit(toy_stream(), "online", max_steps=1, run_dir=False, progress=False).strategy
        == "naive"
    )
    kept = json.loads((folder / "results.json").read_text())
    assert kept["measured"] == json.loads(json.dumps(result.measured))
    assert clframe.Result.load(folder).to_json() == result.to_json()
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    points = [e for e in events if e["event"] == "measurement"]
    curve = result.measured["continual_evaluation"]["experiences"]
    assert {p["step"] for p in points} == {s for one in curve.values() for s in one["steps"]}
    assert points[-1]["values"] == {task: line[-1] for task, line in curve["exp2"]["tasks"].items()}
    row = [e for e in events if e["event"] == "evaluation"][-1]
    assert set(row["measures"]["task0"]) == {"accuracy", "ece", "top_k"}
    with (folder / "csv" / "metrics.csv").open() as file:
        table = list(csv.DictReader(file))
    expected = {
        "continual_evaluation/task0", "eval/ece/task0", "plasticity/dormant", "online/accuracy",
        "cost/state_bytes", "metrics/continual.min_acc", "metrics/predictions.ece",
    }  # fmt: skip
    logged = {name for line in table for name, value in line.items() if value}
    assert expected <= logged
    board = b"".join(path.read_bytes() for path in (folder / "tensorboard").iterdir())
    assert all(name.encode() in board for name in expected)
    assert main(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text()
    assert "Every 3 steps" in page
    assert "confusion" in page.lower()
    assert "continual.stability_gap" in page


def test_the_evaluator_of_the_documentation_reaches_all_records(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    (block,) = (b for b in re.findall(r"```python\n(.*?)```", text, re.S) if "class Errors" in b)
    file, folder = tmp_path / "errors.py", tmp_path / "run"
    file.write_text(block)
    result = clframe.fit(
        toy_stream(), "replay+errors", max_steps=3, plugin_path=file, run_dir=folder, progress=False
    )
    assert result.strategy == "replay"
    assert result.metrics["errors"]["most"] == 1 - result.matrix.values.min()
    assert result.metric_facts["errors.most"] == {"higher_is_better": False}
    assert '"error": ' in (folder / "events.jsonl").read_text()
    assert "eval/error/task0" in (folder / "csv" / "metrics.csv").read_text()


def test_wrong_settings_are_refused_in_one_sentence() -> None:
    for plugin, settings in (
        (Plasticity, {"samples": 0}),
        (Plasticity, {"delta": 1.0}),
        (Predictions, {"bins": 0}),
        (Predictions, {"top_k": 0}),
    ):
        with pytest.raises(clframe.SettingError, match=next(iter(settings))):
            plugin(**settings)  # type: ignore[operator]
