"""``learner.log`` in a plugin: what a Lightning user expects of it."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import clframe
from clframe import Learner, Plugin, Step, hookimpl
from clframe.recording.step_log import StepLog
from clframe.testing import toy_stream


class Norms(Plugin):
    """Logs in a step, over an epoch and between experiences."""

    fail_at = -1

    def __init__(self) -> None:
        self.losses: list[float] = []

    @hookimpl
    def after_step(self, learner: Learner, step: Step) -> None:
        assert step.loss is not None
        self.losses.append(step.loss.item())
        learner.log("norms/loss", step.loss)
        learner.log("norms/mean", step.loss, on_step=False, on_epoch=True)
        learner.log("norms/worst", step.loss, on_epoch=True, reduce_fx="max")
        learner.log_dict({"norms/one": 1, "norms/half": torch.tensor([0.5])})
        if learner.global_step + 1 == self.fail_at:
            raise RuntimeError("power cut")

    @hookimpl
    def before_experience(self, learner: Learner) -> None:
        learner.log("norms/known", len(learner.seen))

    @hookimpl
    def before_epoch(self, learner: Learner, epoch: int) -> None:
        learner.log("norms/epoch", epoch)

    @hookimpl
    def after_experience(self, learner: Learner) -> None:
        learner.log("norms/learned", len(learner.seen))


def fit(run: Path | bool, *plugins: Plugin, **more: Any) -> clframe.Result:
    settings: dict[str, Any] = {"max_epochs": 2, "batch_size": 16, "progress": False, **more}
    return clframe.fit(toy_stream(), list(plugins), run_dir=run, logger="csv", **settings)


def table(run: Path) -> list[dict[str, str]]:
    with (run / "csv" / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def column(run: Path, name: str) -> list[tuple[int, float]]:
    return [(int(row["step"]), float(row[name])) for row in table(run) if row.get(name)]


def test_every_value_reaches_the_loggers_at_its_step(tmp_path: Path) -> None:
    plugin = Norms()
    fit(tmp_path / "run", plugin)
    logged = column(tmp_path / "run", "norms/loss")
    assert [step for step, _ in logged] == list(range(1, len(plugin.losses) + 1))
    assert [value for _, value in logged] == pytest.approx(plugin.losses)
    epochs = column(tmp_path / "run", "train/loss")
    means = dict(column(tmp_path / "run", "norms/mean"))
    assert means == pytest.approx(dict(epochs), rel=1e-5)
    first = epochs[0][0]
    worst = dict(column(tmp_path / "run", "norms/worst_epoch"))
    assert worst[first] == pytest.approx(max(plugin.losses[:first]))
    assert len(column(tmp_path / "run", "norms/worst_step")) == len(plugin.losses)
    assert set(column(tmp_path / "run", "norms/half")) == {(s, 0.5) for s, _ in logged}
    assert [value for _, value in column(tmp_path / "run", "norms/learned")] == [1.0, 2.0, 3.0]
    # The values of a step are one row.
    (row,) = (row for row in table(tmp_path / "run") if row["step"] == "1")
    assert row["norms/one"] == "1.0"


def test_log_every_n_steps_thins_out_and_logs_the_loss(tmp_path: Path) -> None:
    plugin = Norms()
    fit(tmp_path / "run", plugin, log_every_n_steps=4)
    chosen = list(range(4, len(plugin.losses) + 1, 4))
    assert [step for step, _ in column(tmp_path / "run", "norms/loss")] == chosen
    losses = column(tmp_path / "run", "train/loss_step")
    assert dict(losses) == pytest.approx({step: plugin.losses[step - 1] for step in chosen})
    # The number of an epoch is of all its steps.
    epochs = column(tmp_path / "run", "train/loss")
    means = dict(column(tmp_path / "run", "norms/mean"))
    assert means == pytest.approx(dict(epochs), rel=1e-5)


class Pull(Plugin):
    """Adds a term to the loss, except in the first steps, and looks at the gradients."""

    def __init__(self) -> None:
        self.terms: list[float] = []
        self.norms: list[float] = []

    @hookimpl
    def penalty(self, learner: Learner) -> torch.Tensor | None:
        if learner.global_step < 3:
            return None
        term = 0.1 * next(learner.model.parameters()).square().sum()
        self.terms.append(term.item())
        return term

    @hookimpl
    def after_backward(self, learner: Learner) -> None:
        gradients = [p.grad.flatten() for p in learner.parameters() if p.grad is not None]
        self.norms.append(torch.cat(gradients).double().norm().item())


class Push(Pull):
    """Another one: whose term it is must not be mistaken."""

    @hookimpl
    def penalty(self, learner: Learner) -> torch.Tensor:
        self.terms.append(-1.0)
        return next(learner.model.parameters()).sum() * 0 - 1


@pytest.mark.parametrize("every", [None, 2])
def test_terms_of_the_loss_are_logged_by_plugin(tmp_path: Path, every: int | None) -> None:
    pull, push = Pull(), Push()
    settings = {"log_every_n_steps": every, "log_grad_norm": True, "gradient_clip_val": 0.5}
    fit(tmp_path / "run", pull, push, max_epochs=1, **settings)
    logged = {name: dict(column(tmp_path / "run", f"terms/{name}")) for name in ("pull", "push")}
    if every is None:
        ends = [0, *(step for step, _ in column(tmp_path / "run", "train/loss"))]
        first = ends[1]  # whose first three steps have no term of this plugin
        means = {first: sum(pull.terms[: first - 3]) / (first - 3)}
        for start, end in itertools.pairwise(ends[1:]):
            means[end] = sum(pull.terms[start - 3 : end - 3]) / (end - start)
        assert logged["pull"] == pytest.approx(means, rel=1e-4)
        assert set(logged["push"]) == set(means)
    else:
        chosen = range(2, len(push.terms) + 1, 2)
        terms = {step: pull.terms[step - 4] for step in chosen if step > 3}
        assert logged["pull"] == pytest.approx(terms, rel=1e-4)
        assert set(logged["push"]) == set(chosen)
    assert set(logged["push"].values()) == {-1.0}
    norms = column(tmp_path / "run", "train/grad_norm")
    assert dict(norms) == pytest.approx(
        {
            step: pull.norms[step - 1]
            for step in range(1, len(pull.norms) + 1)
            if not step % (every or 1)
        },
        rel=1e-4,
    )


def test_a_resumed_run_logs_the_same(tmp_path: Path) -> None:
    fit(tmp_path / "whole", Norms())
    saving = {"every_n_steps": 3}
    failing = Norms()
    failing.fail_at = 8
    with pytest.raises(RuntimeError, match="power cut"):
        fit(tmp_path / "cut", failing, checkpoint=saving)
    fit(tmp_path / "cut", Norms(), checkpoint=saving, resume="auto")
    assert table(tmp_path / "cut") == table(tmp_path / "whole")


def test_no_step_waits_for_a_logged_value(tmp_path: Path) -> None:
    reads = []

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
            if func is torch.ops.aten._local_scalar_dense.default:
                reads.append(func)
            return func(*args, **(kwargs or {}))

    class Watched(Plugin):
        @hookimpl
        def after_step(self, learner: Learner, step: Step) -> None:
            with Count():
                learner.log("watched/loss", step.loss, on_epoch=True)
                learner.log("watched/norm", next(learner.parameters()).norm())

    fit(tmp_path / "run", Watched())
    assert len(column(tmp_path / "run", "watched/norm")) > 10
    assert reads == []


def test_without_loggers_values_are_dropped() -> None:
    plugin = Norms()
    fit(False, plugin)
    assert plugin.losses


@pytest.mark.parametrize(
    ("value", "arguments", "sentence"),
    [
        (1.0, {"prog_bar": True}, "the progress bar shows the loss alone"),
        (1.0, {"reduce_fx": "median"}, "must be one of mean, sum, min, max"),
        (1.0, {"logger": False}, "leave the call out"),
        (1.0, {"on_epok": True}, "did you mean 'on_epoch'"),
        (1.0, {"on_step": False}, "leave nothing to log"),
        (torch.zeros(3), {}, r"one number, got a Tensor of shape \(3,\)"),
        ({"a": 1}, {}, "use log_dict"),
    ],
)
def test_what_cannot_be_done_is_refused(value: Any, arguments: Any, sentence: str) -> None:
    class Odd(Plugin):
        @hookimpl
        def after_step(self, learner: Learner) -> None:
            learner.log("odd", value, **arguments)

    with pytest.raises(clframe.PluginError, match=sentence):
        fit(False, Odd(), max_steps=1)


def test_what_is_kept_for_the_epoch_is_nobody_elses() -> None:
    log = StepLog()
    log.sink = lambda numbers, step: None
    mine = torch.tensor(1.0)
    for name in ("sum", "max"):
        log.add_to_epoch(name, mine, name, 1)
    log.add(1, "point", mine)
    mine += 10  # its owner goes on with it
    for name in ("sum", "max"):
        log.add_to_epoch(name, torch.tensor(2.0), name, 1)
    saved = log.state_dict()
    log.add_to_epoch("sum", torch.tensor(5.0), "sum", 1)
    assert float(mine) == 11
    assert float(saved["sum"]["value"]) == 3
    assert log.end_epoch() == {"sum": 8, "max": 2}


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float16, torch.float64])
def test_means_of_other_types(dtype: torch.dtype) -> None:
    log = StepLog()
    log.sink = lambda numbers, step: None
    for value in (1, 1, 0, 1):
        log.add_to_epoch("mean", torch.tensor(value).to(dtype), "mean", 1)
    log.add_to_epoch("mean", torch.tensor(0.5), "mean", 1)
    assert log.end_epoch() == {"mean": pytest.approx(3.5 / 5)}
