"""One description of a run: keywords, overrides and a run folder say the same thing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import clframe
from clframe import ClframeError, RunConfig, SettingError
from clframe.api import fit_config
from clframe.build import build
from clframe.cli.main import main
from clframe.config.compose import compose
from clframe.core.trainer import DEFAULT_EPOCHS, TrainerSettings
from clframe.testing import toy_stream

WORDS = ["n_experiences=2", "strategy=ewc", "weight=7", "hidden=[8]", "max_steps=3", "lr=0.01"]
KEYWORDS: dict[str, Any] = {
    "stream": {"name": "split_mnist", "n_experiences": 2},
    "strategy": {"ewc": {"weight": 7.0}},
    "model": {"name": "mlp", "hidden": [8]},
    "optimizer": {"name": "adam", "lr": 0.01},
    "max_steps": 3,
    "progress": False,
}


def config_of(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((run / "config.yaml").read_text())
    return content


def results_of(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "results.json").read_text())
    content.pop("timing")
    return content


def epochs_of(run: Path) -> int:
    lines = (run / "events.jsonl").read_text().splitlines()
    return [json.loads(line)["event"] for line in lines].count("epoch")


# ------------------------------------------------------------ three ways, one run


def test_keywords_and_overrides_make_the_same_run(tmp_path: Path) -> None:
    clframe.fit(**KEYWORDS, run_dir=tmp_path / "python")
    assert main(["fit", *WORDS, f"run_dir={tmp_path / 'command'}"]) == 0
    kept, typed = config_of(tmp_path / "python"), config_of(tmp_path / "command")
    assert list(kept) == list(typed)
    # Each keeps what was asked for, in the words of the command line, and no default.
    asked = kept.pop("overrides")
    assert typed.pop("overrides") == [*WORDS, "seed=0"]
    assert len(asked) == 10, asked
    assert kept == typed
    assert results_of(tmp_path / "python") == results_of(tmp_path / "command")
    assert main(["fit", *asked, f"run_dir={tmp_path / 'again'}"]) == 0
    assert results_of(tmp_path / "python") == results_of(tmp_path / "again")


def test_a_folder_describes_its_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    clframe.fit(**KEYWORDS, run_dir=run)
    again = RunConfig.from_folder(run).replace(resume=None, run_dir=tmp_path / "again")
    fit_config(again)
    assert config_of(tmp_path / "again") == config_of(run)
    assert results_of(tmp_path / "again") == results_of(run)
    resumed = compose([f"resume={run}"])
    assert resumed.resume == str(run)
    assert resumed.replace(resume_allow=()) == RunConfig.from_folder(run)


def test_positional_arguments_and_settings_of_the_trainer() -> None:
    config = RunConfig.of("permuted_mnist", "si", "cnn", batch_size=3, trainer={"max_steps": 1})
    assert (config.stream, config.strategy, config.model) == ("permuted_mnist", "si", "cnn")
    assert config.trainer == {"max_steps": 1, "batch_size": 3}
    with pytest.raises(TypeError, match="stream is given twice"):
        RunConfig.of("split_mnist", stream="permuted_mnist")
    with pytest.raises(TypeError, match="at most stream, strategy, model"):
        RunConfig.of("split_mnist", "naive", "mlp", "task")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"max_epoch": 1}, "unknown argument 'max_epoch'; did you mean 'max_epochs'"),
        ({"learning_rate": 1}, "unknown argument 'learning_rate'; did you mean 'lr'"),
        ({"checkpoint": {"evry": 1}}, "unknown setting 'evry' for checkpoint"),
        ({"seed": "one"}, "seed"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"scenario": "tasks"}, "scenario must be one of"),
        ({"active_outputs": "some"}, "active_outputs must be seen or all"),
        ({"resume": "auto"}, "give run_dir=FOLDER"),
    ],
)
def test_mistakes_are_said_when_it_is_made(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        RunConfig.of(**values)


def test_a_run_with_objects_is_continued_in_python(tmp_path: Path) -> None:
    clframe.fit(toy_stream(), max_steps=1, run_dir=tmp_path / "run", progress=False)
    with pytest.raises(SettingError, match=r"made in Python with a stream of its own \(clframe"):
        RunConfig.from_folder(tmp_path / "run")
    with pytest.raises(ClframeError, match="is not a run folder"):
        RunConfig.from_folder(tmp_path)


def test_an_entry_that_is_not_known_is_named(tmp_path: Path) -> None:
    clframe.fit(**KEYWORDS, run_dir=tmp_path / "run")
    with (tmp_path / "run/config.yaml").open("a") as file:
        file.write("later: 1\n")
    with pytest.raises(SettingError, match="has an entry 'later', which this version"):
        RunConfig.from_folder(tmp_path / "run")


# ------------------------------------------------------------ how long to train


def test_both_ways_train_as_long_by_default(tmp_path: Path) -> None:
    assert TrainerSettings().max_epochs == DEFAULT_EPOCHS
    quiet = {"logger": None, "run_dir": False, "progress": False}
    for config in (RunConfig.of(), compose([]), RunConfig.of(toy_stream())):
        learner = build(config.replace(**quiet)).learner
        assert learner.engine.settings.budget.epochs == DEFAULT_EPOCHS
        assert learner.engine.settings.budget.steps is None
    clframe.fit(toy_stream(n_experiences=1), run_dir=tmp_path / "run", progress=False)
    assert epochs_of(tmp_path / "run") == DEFAULT_EPOCHS


@pytest.mark.parametrize("words", [["max_steps=5"], ["trainer.max_steps=5"]])
def test_steps_alone_are_the_only_limit(words: list[str]) -> None:
    quiet = {"logger": None, "run_dir": False, "progress": False}
    for config in (RunConfig.of(max_steps=5), compose(words)):
        budget = build(config.replace(**quiet)).learner.engine.settings.budget
        assert (budget.epochs, budget.steps) == (None, 5)


# ------------------------------------------------------------ continuing with other settings

SMALL = ["n_experiences=2", "hidden=[8]", "trainer.batch_size=250", "logger=none"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of one epoch per experience."""
    folder = tmp_path / "run"
    assert main(["fit", *SMALL, "max_epochs=1", f"run_dir={folder}"]) == 0
    return folder


def test_another_setting_needs_to_be_allowed(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}
    capfd.readouterr()
    assert main(["fit", f"resume={run}", "trainer.max_epochs=3"]) == 2
    said = capfd.readouterr().err
    assert "trainer.max_epochs was 1 and is 3" in said
    assert "If that is intended, add resume.allow=[trainer.max_epochs]" in said
    after = {path: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}
    assert after == before


def test_an_allowed_setting_is_taken_and_written_down(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from clframe.checkpoint.checkpointer import Checkpointer

    folder = tmp_path / "run"
    finish = Checkpointer.end_experience

    def stop(self: Checkpointer) -> None:
        finish(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpointer, "end_experience", stop)
        words = ["max_epochs=1", "checkpoint.every_n_steps=1", f"run_dir={folder}"]
        assert main(["fit", *SMALL, *words]) == 130
    learned = epochs_of(folder)
    words = ["trainer.max_epochs=3", "resume.allow=[trainer.max_epochs]"]
    assert main(["fit", f"resume={folder}", *words]) == 0
    assert "trainer.max_epochs was 1 and is 3, as allowed by resume.allow" in capfd.readouterr().err
    assert learned == 1
    # The first experience's loop had come to its end; the second is learned as is said now.
    assert epochs_of(folder) == 1 + 3
    assert config_of(folder)["trainer"]["max_epochs"] == 3
    assert main(["fit", f"resume={folder}"]) == 0  # from now on it is the run's own setting


def test_what_is_allowed_must_exist(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["trainer.max_epochs=3", "resume.allow=[trainer.max_epoch]"]
    assert main(["fit", f"resume={run}", *words]) == 2
    assert "resume.allow: 'trainer.max_epoch' is not a difference" in capfd.readouterr().err


def test_another_experiment_is_another_run(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", f"resume={run}", "experiment=nothing"]) == 2
    assert "unknown experiment 'nothing'" in capfd.readouterr().err
    assert main(["fit", f"resume={run}", "strategy=si"]) == 2
    said = capfd.readouterr().err
    assert "strategy.si.c was missing" in said
    assert "resume.allow=[strategy.si" in said


def test_python_takes_the_same_words(run: Path) -> None:
    config = RunConfig.from_folder(run)
    more = config.replace(trainer={**(config.trainer or {}), "max_epochs": 2})
    with pytest.raises(ClframeError, match=r"trainer\.max_epochs was 1 and is 2"):
        fit_config(more.replace(progress=False))
    fit_config(more.replace(progress=False, resume_allow=["trainer.max_epochs"]))
    assert config_of(run)["trainer"]["max_epochs"] == 2


def test_a_finished_run_that_is_resumed_stays_as_it_was(run: Path) -> None:
    before = results_of(run), (run / "events.jsonl").read_text(), config_of(run)
    assert main(["fit", f"resume={run}"]) == 0
    assert (results_of(run), (run / "events.jsonl").read_text(), config_of(run)) == before
