"""What a run asks of a logger: a subclass of RunLogger, or any Lightning logger."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from lightning.fabric.loggers.csv_logs import CSVLogger
from lightning.pytorch.loggers import Logger

import clframe
from clframe import PluginError, RunLogger
from clframe.recording.logger import NumbersOnly, as_run_logger, title_of
from clframe.testing import toy_stream

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_logger.py"


def fit(folder: Path, code: str, **values: Any) -> clframe.Result:
    """Run with a logger that a user's file registers."""
    file = folder / "mine.py"
    file.write_text(code)
    return clframe.fit(
        toy_stream(), logger="mine", plugin_path=file, run_dir=folder / "run", max_epochs=1,
        progress=False, **values,
    )  # fmt: skip


# ------------------------------------------------------------ refused


def test_a_logger_without_log_metrics_is_refused_when_its_class_is_made() -> None:
    with pytest.raises(PluginError, match=r"Silent has no method 'log_metrics'"):

        class Silent(RunLogger):
            """Logs nothing."""


def test_a_logger_with_other_parameters_is_refused_when_its_class_is_made() -> None:
    with pytest.raises(PluginError, match=r"Stepless\.log_metrics must take \(self, metrics, step"):

        class Stepless(RunLogger):
            def log_metrics(self, metrics: Any) -> None:  # type: ignore[override]
                pass


def test_a_lightning_logger_behind_the_contract_is_refused() -> None:
    with pytest.raises(PluginError, match=r"write class Wrong\(CSVLogger, clframe\.RunLogger\)"):

        class Wrong(RunLogger, CSVLogger):  # type: ignore[misc]
            """The contract's placeholders would hide Lightning's methods."""


def test_a_value_that_is_a_method_is_refused() -> None:
    with pytest.raises(PluginError, match=r"Maybe\.takes_media must be a value or a property"):

        class Maybe(RunLogger):
            def takes_media(self) -> bool:  # type: ignore[override]
                return False

            def log_metrics(self, metrics: Any, step: Any = None) -> None:
                pass


@pytest.mark.parametrize("missing", ["log_metrics", "finalize"])
def test_something_that_is_no_logger_is_refused(missing: str) -> None:
    methods = {"log_metrics": lambda *_: None, "finalize": lambda *_: None}
    del methods[missing]
    made = type("Half", (), methods)()
    message = f"logger 'mine' is a Half without '{missing}': return a Lightning logger or a sub"
    with pytest.raises(PluginError, match=message):
        as_run_logger(made, "mine")


# ------------------------------------------------------------ accepted

PLAIN = """
from clframe import hookimpl
from lightning.pytorch.loggers import CSVLogger

def mine(run_dir):
    return CSVLogger(str(run_dir), name="", version="plain", flush_logs_every_n_steps=1)

@hookimpl
def register(registry):
    registry.add("logger", "mine", mine)
"""


def test_a_plain_lightning_logger_gets_the_numbers(tmp_path: Path) -> None:
    result = fit(tmp_path, PLAIN)
    (path,) = (tmp_path / "run").rglob("metrics.csv")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    means = [float(row["eval/mean"]) for row in rows if row.get("eval/mean")]
    assert means == pytest.approx(result.matrix.values.mean(1).tolist())
    assert [row for row in rows if row.get("train/loss")]


def test_a_plain_lightning_logger_gets_numbers_only() -> None:
    calls: list[Any] = []

    class Plain(Logger):
        name = version = "plain"

        def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
            calls.append((step, dict(metrics)))

        def log_hyperparams(self, *_: Any, **__: Any) -> None:
            calls.append("hyperparameters")

        def finalize(self, status: str) -> None:
            calls.append(status)

    logger = as_run_logger(Plain(), "mine")
    assert isinstance(logger, NumbersOnly)
    assert title_of(logger) == "Plain"
    assert not logger.takes_media
    logger.log_media([], 1)
    logger.log_files("results", "results", [], [])
    logger.expect(["a"])
    logger.log_metrics({"loss": 1.0}, step=2)
    logger.finalize("success")
    assert calls == [(2, {"loss": 1.0}), "success"]


def test_a_logger_that_derives_is_used_as_it_is() -> None:
    class Mine(RunLogger):
        def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
            pass

    logger = Mine()
    assert as_run_logger(logger, "mine") is logger
    assert title_of(logger) == "Mine"
    assert logger.state_dict() == {} == logger.written_files()


# ------------------------------------------------------------ the example


@pytest.mark.parametrize("every", [1, 3])
def test_the_examples_rows_are_the_same_after_a_resume(tmp_path: Path, every: int) -> None:
    """Stopped in the middle of an experience; rows after the checkpoint are not there twice."""
    from clframe.build import build
    from clframe.config.run_config import RunConfig
    from clframe.run import run
    from clframe.testing import Kill, Killed

    def rows(folder: Path) -> list[Any]:
        lines = (folder / "rows.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def config(folder: Path, **values: Any) -> RunConfig:
        return RunConfig.of(
            toy_stream(), logger="jsonl", plugin_path=EXAMPLE, run_dir=folder, progress=False,
            max_epochs=2, log_every_n_steps=1, checkpoint={"every_n_steps": every}, **values,
        )  # fmt: skip

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder, plugins in ((whole, []), (broken, [Kill(after=5)])):
        built = build(config(folder), extra_plugins=plugins)
        try:
            run(built.learner, built.stream, built.strategy, built.folder)
        except Killed:
            assert plugins
    before = len(rows(broken))
    assert 0 < before < len(rows(whole))
    built = build(config(broken, resume=broken))
    run(built.learner, built.stream, built.strategy, built.folder)
    assert rows(broken) == rows(whole)
