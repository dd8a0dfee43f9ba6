"""docs/tracking.md as it says: sweeps of W&B's agent, runs sent later, failures, other loggers."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from lightning.pytorch.loggers import Logger

import clframe
from clframe import Heatmap, Learner, Plugin, Table, hookimpl
from clframe.cli.main import main
from clframe.config.compose import compose
from clframe.errors import SettingError
from clframe.loggers.lightning import Foreign
from clframe.loggers.wandb import WandbRun, wandb
from clframe.testing import toy_stream
from tests.helpers import tensorboard_files, wandb_runs

PAGE = (Path(__file__).parents[2] / "docs" / "tracking.md").read_text()
TESTS = Path(__file__).parent.parent
SEVERAL = """
import json, sys
import clframe
from clframe import Plugin, hookimpl
from clframe.cli.main import main
from clframe.testing import toy_stream

class Fails(Plugin):
    @hookimpl
    def after_step(self, learner):
        if learner.global_step == 3:
            raise RuntimeError("power cut")

assert main(json.loads(sys.argv[1])[1:]) == 0
clframe.fit(toy_stream(), "si", max_epochs=1, run_dir="plain", progress=False)
assert main(["wandb", "plain", "mode=offline", "project=thesis"]) == 0
assert main(["wandb", "plain", "mode=offline"]) == 2
clframe.fit(toy_stream(), max_steps=1, logger={"wandb": {"mode": "disabled", "log_model": "all"}},
            run_dir="disabled", progress=False)
try:
    clframe.fit(toy_stream(), Fails(), logger={"wandb": {"mode": "offline"}}, run_dir="fails",
                progress=False)
except RuntimeError:
    pass
"""


def agent_command(text: str, form: str) -> list[str]:
    """The words with which W&B's agent starts a run of a sweep: W&B's own functions."""
    utils = pytest.importorskip("wandb.sdk.launch.sweeps.utils")
    sweep = yaml.safe_load(text.replace("${args_no_hyphens}", form))
    values = {}
    for name, parameter in sweep["parameters"].items():
        given = parameter.get("value", parameter.get("values", [parameter.get("min")])[0])
        values[name] = {"value": given}
    filled = utils.create_sweep_command_args({"args": values})
    words: list[str] = []
    for word in utils.create_sweep_command(sweep["command"]):
        macro = re.fullmatch(r"\$\{(\w+)\}", word)
        words += filled[macro[1]] if macro else [word]
    return words


def the_yaml() -> str:
    (text,) = (
        block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.S) if "method:" in block
    )
    return str(text)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("several")
    words = agent_command(the_yaml(), "${args_no_hyphens}")
    assert words[:2] == ["clframe", "fit"]
    words += ["run_dir=swept"]
    variables = {"WANDB_MODE": "offline", "WANDB_RUN_ID": "given123"}
    done = wandb_runs.run(SEVERAL, folder, json.dumps(words), **variables)
    assert done.returncode == 0, done.stderr
    return folder, done.stderr


def records(folder: Path) -> dict[str, list[Any]]:
    (path,) = (folder / "wandb").glob("offline-run-*/*.wandb")
    found: dict[str, list[Any]] = {}
    for record in wandb_runs.records(path):
        kind = record.WhichOneof("record_type")
        found.setdefault(kind, []).append(getattr(record, kind))
    return found


def keys(found: dict[str, list[Any]]) -> set[str]:
    return {wandb_runs.key_of(item) for row in found["history"] for item in row.item}


@pytest.mark.slow
def test_the_agent_of_wandb_starts_a_run_that_logs_its_goal(several: tuple[Path, str]) -> None:
    found = records(several[0] / "swept")
    assert found["run"][0].run_id == "given123"
    goal = yaml.safe_load(the_yaml())["metric"]["name"]
    assert {goal, "samples/path", "terms/ewc"} <= keys(found)
    config = yaml.safe_load((several[0] / "swept" / "config.yaml").read_text())
    assert config["strategy"]["ewc"]["weight"] == 1
    assert config["optimizer"]["lr"] == 0.001


def test_the_agents_other_form_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from clframe.cli import fit

    taken: list[list[str]] = []
    monkeypatch.setattr(fit, "run_once", lambda words: taken.append(list(words)) or 0)
    for form in ("${args_no_hyphens}", "${args}"):
        assert fit.main(agent_command(the_yaml(), form)[2:]) == 0
    assert taken[0] == taken[1]


@pytest.mark.slow
def test_a_finished_run_is_sent_once(several: tuple[Path, str]) -> None:
    folder, error = several
    found = records(folder / "plain")
    assert found["run"][0].project == "thesis"
    assert found["run"][0].run_group == "toy/si"
    assert {"train/loss", "terms/si", "matrix/nrows", "metrics/gem.acc"} <= keys(found)
    names = [artifact.name for artifact in found["artifact"]]
    assert f"results-{found['run'][0].run_id}" in names
    with (folder / "plain" / "csv" / "metrics.csv").open() as file:
        rows = len(list(csv.DictReader(file)))
    assert len(found["history"]) == rows + 3  # and the matrix after each experience
    assert "is W&B run" in error


@pytest.mark.slow
def test_a_run_that_fails_is_marked_failed(several: tuple[Path, str]) -> None:
    (end,) = records(several[0] / "fails")["exit"]
    assert end.exit_code == 1
    assert not list((several[0] / "disabled" / "wandb").glob("*run-*"))


def test_runs_of_a_sweep_are_grouped_and_the_environment_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"strategy_name": "ewc", "scenario": "task"}
    alone = wandb(tmp_path / "a", config, "toy", mode="offline")._wandb_init
    assert (alone["group"], alone["name"], alone["project"]) == ("toy/ewc", "toy-ewc-a", "clframe")
    (tmp_path / "sweep.json").write_text("{}")
    monkeypatch.setenv("WANDB_NAME", "theirs")
    monkeypatch.setenv("WANDB_TAGS", "one,two")
    swept = wandb(tmp_path / "b", config, "toy", mode="offline", tags=("mine",))._wandb_init
    assert (swept["group"], swept["name"]) == (tmp_path.name, "theirs")
    assert swept["tags"] == ["toy", "ewc", "task", "one", "two", "mine"]


class Server:
    """A W&B run that a server has some rows of; the real one needs a server."""

    def __init__(self, step: int = 0, **how: Any) -> None:
        self.step, self.resumed, self.rows, self.how = step, step > 0, [], how
        self.artifacts: list[Any] = []
        self.summary: dict[str, Any] = {}

    def define_metric(self, *names: str, **how: Any) -> None:
        pass

    def log(self, row: dict[str, Any]) -> None:
        self.rows.append(row)

    def log_artifact(self, artifact: Any, aliases: list[str]) -> None:
        self.artifacts.append(artifact)

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


def test_w_and_b_gets_a_run_a_finished_run_and_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The slow tests of this file read W&B's own files; here W&B is replaced in this process."""
    began: list[Server] = []

    def begin(**how: Any) -> Server:
        began.append(Server(**how))
        return began[-1]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_RUN_ID", "given123")
    monkeypatch.setattr("wandb.init", begin)
    words = agent_command(the_yaml(), "${args_no_hyphens}")
    assert main([*words[1:], "run_dir=swept", "max_epochs=null", "max_steps=2"]) == 0
    monkeypatch.delenv("WANDB_RUN_ID")
    quick: dict[str, Any] = {"max_epochs": 1, "progress": False}
    clframe.fit(toy_stream(), "si", run_dir="plain", **quick)
    assert main(["wandb", "plain", "mode=offline", "project=thesis"]) == 0
    assert main(["wandb", "plain", "mode=offline"]) == 2
    assert "is W&B run" in capfd.readouterr().err
    with pytest.raises(RuntimeError, match="power cut"):
        clframe.fit(
            toy_stream(), PowerCut(), logger="wandb", run_dir="fails", batch_size=16, **quick
        )
    swept, plain, _ = began
    assert swept.how["id"] == "given123"
    goal = yaml.safe_load(the_yaml())["metric"]["name"]
    assert {goal, "samples", "terms/ewc"} <= set().union(*swept.rows)
    config = yaml.safe_load(Path("swept/config.yaml").read_text())
    assert config["strategy"]["ewc"]["weight"] == 1
    assert config["optimizer"]["lr"] == 0.001
    assert (plain.how["project"], plain.how["group"]) == ("thesis", "toy/si")
    assert {"train/loss", "terms/si", "matrix", "metrics/gem.acc"} <= set().union(*plain.rows)
    assert f"results-{plain.how['id']}" in [artifact.name for artifact in plain.artifacts]
    with Path("plain/csv/metrics.csv").open() as file:
        rows = len(list(csv.DictReader(file)))
    assert len(plain.rows) == rows + 3  # and the matrix after each experience
    assert [run.exit_code for run in began] == [0, 0, 1]


class PowerCut(Plugin):
    """Fails in its fourth step."""

    @hookimpl
    def after_step(self, learner: Learner) -> None:
        if learner.global_step == 3:
            raise RuntimeError("power cut")


@pytest.mark.parametrize("there", [0, 2, 4, 6])
def test_online_a_server_is_sent_what_it_has_not(
    there: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after six rows of which some were saved with the run and some reached the server."""
    first, second = Server(0), Server(there)
    monkeypatch.setattr("wandb.init", lambda **how: first)
    logger = WandbRun(tmp_path, mode="online")
    for step in range(4):
        logger.log_metrics({"loss": step}, step)
    state = logger.state_dict()
    for step in (4, 5):
        logger.log_metrics({"loss": step}, step)
    monkeypatch.setattr("wandb.init", lambda **how: second)
    again = WandbRun(tmp_path, mode="online")
    again.load_state_dict(state)
    for step in range(4, 8):
        again.log_metrics({"loss": step}, step)
    again.finalize("stopped")
    assert [row["loss"] for row in second.rows] == list(range(there, 8))
    assert second.exit_code == 255


class Draws(Plugin):
    """The plugin of the page, with every kind of media."""

    @hookimpl
    def after_experience(self, learner: Learner) -> None:
        if len(learner.seen) == 1:
            learner.log_media("draws/grey", np.eye(4))
            learner.log_media("draws/color", torch.rand(3, 5, 6), caption="noise")
            learner.log_media("draws/video", np.zeros((3, 4, 4, 3), np.uint8))
            learner.log_media("draws/map", Heatmap([[1.0, None]], ["a"], ["b", "c"]))
            learner.log_media("draws/table", Table(["a", "b"], [[1, "x"]]))
            learner.log_media("draws/text", "words")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with TensorBoard and a logger named by its class."""
    run = tmp_path_factory.mktemp("drawn") / "run"
    words = [
        "logger=[tensorboard,lightning.pytorch.loggers.CSVLogger]",
        "logger.lightning.name=mine",
    ]
    chosen = compose(words).logger
    clframe.fit(
        toy_stream(),
        [Draws(), "ewc", "predictions"],
        max_epochs=1,
        logger=chosen,
        run_dir=run,
        progress=False,
    )
    return run


def test_tensorboard_has_media_config_and_hyperparameters(drawn: Path) -> None:
    tags = {tag for tag, _, _ in tensorboard_files.points_of_board(str(drawn))}
    assert {"terms/ewc", "train/loss", "eval/mean", "matrix_image", "confusion"} <= tags
    assert {"draws/grey", "draws/color", "draws/video", "draws/map"} <= tags
    assert {"config/text_summary", "matrix/text_summary", "draws/table/text_summary"} <= tags
    assert any(tag.startswith("_hparams_") for tag in tags)
    from PIL import Image

    with Image.open(drawn / "media" / "draws" / "color" / "0000001.png") as image:
        assert image.size == (6, 5)


def test_a_logger_named_by_its_class_gets_numbers_and_config(drawn: Path) -> None:
    (table,) = drawn.glob("mine/version_0/metrics.csv")
    with table.open() as file:
        assert any(row["terms/ewc"] for row in csv.DictReader(file))
    assert "trainer.max_epochs: 1" in (table.parent / "hparams.yaml").read_text()


class Kept(Logger):
    """A logger of one's own that keeps what it is given."""

    name, version = "kept", "3"

    def __init__(self) -> None:
        self.steps: list[int | None] = []
        self.described: Any = None

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.steps.append(step)

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        self.described = params


def test_a_resumed_run_repeats_nothing_to_any_logger(tmp_path: Path) -> None:
    first, second = Kept(), Kept()
    before = Foreign(first, tmp_path, {"trainer": {"devices": 1}})
    before.log_metrics({"loss": 1.0}, 0)
    state = before.state_dict()
    before.log_metrics({"loss": 1.0}, 1)  # and then it is killed
    after = Foreign(second, tmp_path, {})
    after.load_state_dict(state)
    for step in (1, 2):
        after.log_metrics({"loss": 1.0}, step)
    assert (first.steps, second.steps) == ([0, 1], [2])
    assert first.described == {"trainer.devices": 1}
    assert not after.takes_media


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"class_path": "nowhere.At.all"}, "there is no package 'nowhere'"),
        ({"class_path": "torch.nn.Linear"}, "is not a Lightning logger"),
        ({"class_path": "lightning.pytorch.loggers.CVSLogger"}, "did you mean 'CSVLogger'"),
        ({"class_path": "lightning.pytorch.loggers.CSVLogger", "nam": 1}, "did you mean 'name'"),
        ({"class_path": "lightning.pytorch.loggers.MLFlowLogger"}, "not installed"),
        ({}, "needs a value for 'class_path'"),
    ],
)
def test_what_is_no_logger_is_refused(settings: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=sentence):
        clframe.fit(
            toy_stream(), logger={"lightning": settings}, run_dir=tmp_path / "run", progress=False
        )
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_shown_is_said_or_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    clframe.fit(toy_stream(), Draws(), max_steps=1, run_dir=tmp_path / "run", progress=False)
    said = capfd.readouterr().err
    assert said.count("logger csv accepts only numbers") == 1
    assert not (tmp_path / "run" / "media").exists()

    class Odd(Plugin):
        @hookimpl
        def after_experience(self, learner: Learner) -> None:
            learner.log_media("odd", {"a": 1})

    with pytest.raises(clframe.PluginError, match="a table or a text, got a dict"):
        clframe.fit(toy_stream(), Odd(), max_steps=1, run_dir=False, progress=False)


def test_the_plugin_of_the_page_works(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    names: dict[str, Any] = {}
    exec(compile(block, "tracking.md", "exec"), names)
    run = tmp_path / "run"
    settings: dict[str, Any] = {"max_steps": 2, "run_dir": run, "progress": False}
    clframe.fit(toy_stream(), names["Watch"](), logger="tensorboard", **settings)
    assert sorted(path.name for path in (run / "media" / "watch").iterdir()) == [
        "note",
        "sizes",
        "weights",
    ]
