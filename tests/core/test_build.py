"""From a description to its parts: who is in a run, and what is left behind by a mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clframe
from clframe import Plugin, RunConfig, hookimpl
from clframe.build import build, write_config
from clframe.cli.main import main
from clframe.strategies import DEFAULT_PLUGINS
from clframe.testing import run_built, toy_stream


class Progress(Plugin):
    """Shows how far a run is, in a way of its own."""

    def __init__(self) -> None:
        self.rows: list[str] = []

    @hookimpl
    def after_evaluation(self, row: str) -> None:
        """Keep the row."""
        self.rows.append(row)


def names(built: Any) -> list[str]:
    return [plugin.name for plugin in built.learner.plugins.ordered]


def test_built_in_plugins_come_last_and_in_their_order(tmp_path: Path) -> None:
    built = build(RunConfig.of(toy_stream(), "ewc", run_dir=tmp_path / "run"))
    assert names(built)[0] == "ewc"
    built_in = [name for name in DEFAULT_PLUGINS if name in names(built)]
    assert names(built)[1:] == built_in
    assert {"recorder", "lifetime_log", "logging", "loop", "accuracy", "metrics"} <= set(built_in)
    quiet = build(RunConfig.of(toy_stream(), run_dir=False, progress=False))
    assert not {"recorder", "lifetime_log", "logging", "progress"} & set(names(quiet))


def test_a_strategys_plugin_takes_the_place_of_the_built_in_of_its_name(
    capfd: pytest.CaptureFixture[str],
) -> None:
    mine = Progress()
    built = build(RunConfig.of(toy_stream(), mine, max_epochs=1, run_dir=False))
    assert names(built).count("progress") == 1
    assert mine in built.learner.plugins.ordered
    run_built(built)
    assert mine.rows == ["before", "exp0", "exp1", "exp2"]
    assert "mean accuracy" not in capfd.readouterr().err


def test_extra_plugins_do_so_as_well() -> None:
    class Loop(Plugin):
        """Learns nothing."""

        @hookimpl(trylast=True)
        def fit_experience(self) -> bool:
            """Say that it is done."""
            return True

    loop = Loop()
    built = build(RunConfig.of(toy_stream(), run_dir=False, progress=False), [loop])
    assert names(built).count("loop") == 1
    run_built(built)
    assert built.learner.global_steps == 0


def test_building_writes_nothing_and_loads_no_data(tmp_path: Path) -> None:
    stream = toy_stream()
    loaded = []
    for experience in stream.experiences:
        load = experience.load
        object.__setattr__(experience, "load", lambda load=load: loaded.append(1) or load())
    built = build(RunConfig.of(stream, run_dir=tmp_path / "run", progress=False))
    assert not loaded
    assert not (tmp_path / "run").exists()
    assert built.folder is not None
    run_built(built)
    assert loaded
    assert (tmp_path / "run" / "results.json").exists()


def test_data_that_cannot_be_loaded_leaves_no_folder(tmp_path: Path) -> None:
    stream = toy_stream()

    def missing() -> Any:
        assert (tmp_path / "run").exists()  # what takes minutes is done in the run's folder
        raise clframe.DataError("the disk is not there")

    object.__setattr__(stream.experiences[0], "load", missing)
    with pytest.raises(clframe.DataError, match="the disk is not there"):
        clframe.fit(stream, run_dir=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_folder_of_somebody_else_keeps_its_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    stream = toy_stream()

    def missing() -> Any:
        raise clframe.DataError("gone")

    object.__setattr__(stream.experiences[0], "load", missing)
    with pytest.raises(clframe.DataError, match="gone"):
        clframe.fit(stream, run_dir=tmp_path, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_written_config_is_a_run_that_another_process_begins(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"max_steps": 2, "model": {"name": "mlp", "hidden": [8]}}
    config = RunConfig.of("split_mnist", "si", **settings, progress=False, logger=None)
    write_config(config.replace(run_dir=tmp_path / "run"))
    assert {path.name for path in (tmp_path / "run").iterdir()} <= {
        "config.yaml",
        "events.jsonl",
        ".lock",
    }
    assert main(["fit", f"resume={tmp_path / 'run'}"]) == 0
    whole = clframe.fit("split_mnist", "si", **settings, run_dir=False, progress=False)
    kept = clframe.RunConfig.from_folder(tmp_path / "run")
    assert kept.strategy_name == "si"
    values = json.loads((tmp_path / "run/results.json").read_text())["matrix"]["values"]
    assert values == whole.matrix.to_json()["values"]


def test_objects_cannot_be_written_for_another_process(tmp_path: Path) -> None:
    with pytest.raises(clframe.SettingError, match="made in Python with a stream of its own"):
        write_config(RunConfig.of(toy_stream(), run_dir=tmp_path / "run"))
    assert not (tmp_path / "run").exists()
