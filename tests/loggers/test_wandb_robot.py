"""What W&B's users look for, in one offline run of a robot that is killed and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers import wandb_runs

# Two processes with W&B's own; test_tracking.py has what clframe gives it.
pytestmark = pytest.mark.slow
pytest.importorskip("wandb")
pytest.importorskip("h5py", reason="demonstrations are HDF5 files")

CODE = """
import os, signal
import clframe
from clframe import Plugin, Table, hookimpl

class Act(Plugin):
    @hookimpl
    def after_step(self, learner):
        learner.log("act/one", 1)
        if learner.global_step + 1 == int(os.environ.get("AT", 0)):
            os.kill(os.getpid(), signal.SIGKILL)

    @hookimpl
    def after_experience(self, learner):
        learner.log_media("act/seen", Table(["name"], [[one.name] for one in learner.seen]))

stream = {"name": "point_robot", "n_tasks": 2, "num_demos": 4, "eval_episodes": 2, "horizon": 20,
          "num_workers": 0}
wandb = {"mode": "offline", "tags": ["ours"], "notes": "a robot", "log_model": True}
clframe.fit(stream, ["ewc", "er", Act()], max_epochs=2, videos="gif", log_every_n_steps=1,
            log_grad_norm=True, logger={"wandb": wandb}, run_dir="run", progress=False,
            resume="auto", checkpoint={"every_n_steps": 3}, data_dir="data")
"""


class Logged:
    """What the file of an offline run holds."""

    def __init__(self, path: Path) -> None:
        key_of = wandb_runs.key_of
        self.rows: list[dict[str, Any]] = []
        self.config: dict[str, Any] = {}
        self.artifacts: dict[str, Any] = {}
        self.axes: dict[str, str] = {}
        self.exit_code: int | None = None
        for record in wandb_runs.records(path):
            kind = record.WhichOneof("record_type")
            if kind == "history":
                items = record.history.item
                self.rows.append({key_of(item): json.loads(item.value_json) for item in items})
            elif kind == "run":
                self.run = record.run
            elif kind == "artifact":
                self.artifacts[record.artifact.name] = record.artifact
            elif kind == "metric":
                self.axes[record.metric.name] = record.metric.step_metric
            elif kind == "exit":
                self.exit_code = record.exit.exit_code
            for item in [*record.run.config.update, *record.config.update]:
                self.config[key_of(item)] = json.loads(item.value_json)

    def column(self, key: str) -> list[tuple[int, Any]]:
        """All values of a key with their steps."""
        return [(row["trainer/global_step"], row[key]) for row in self.rows if key in row]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("robot")
    killed = wandb_runs.run(CODE, folder, AT="11")
    assert killed.returncode == -9, killed.stderr
    assert list((folder / "run" / "wandb").glob("offline-run-*"))
    assert not (folder / "run" / "results.json").exists()
    done = wandb_runs.run(CODE, folder)
    assert done.returncode == 0, done.stderr
    assert "left out from now on" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def logged(folder: Path) -> Logged:
    (path,) = (folder / "run" / "wandb").glob("offline-run-*/*.wandb")  # one folder is left
    return Logged(path)


def test_a_killed_run_is_one_run_without_repeated_steps(folder: Path, logged: Logged) -> None:
    events = map(json.loads, (folder / "run" / "events.jsonl").read_text().splitlines())
    last = [event["step"] for event in events if event["event"] == "epoch"][-1]
    everyone = list(range(1, last + 1))
    assert last > 6
    for key in ("train/loss_step", "train/grad_norm", "act/one"):
        assert [step for step, _ in logged.column(key)] == everyone, key
    assert [row["_step"] for row in logged.rows] == list(range(len(logged.rows)))
    steps = [row["trainer/global_step"] for row in logged.rows]
    assert steps == sorted(steps)
    assert len(logged.column("train/loss")) == 4
    assert len(logged.column("metrics/gem.acc")) == 1
    known = json.loads((folder / "run" / "wandb" / "clframe.json").read_text())
    assert logged.run.run_id == known["id"]
    assert logged.exit_code == 0


def test_every_plugins_term_adds_up_to_the_loss(logged: Logged) -> None:
    losses = dict(logged.column("train/loss_step"))
    task, replay, ewc = (dict(logged.column(f"terms/{n}")) for n in ("task", "replay", "ewc"))
    assert ewc
    assert set(ewc) == set(replay) == set(task)
    assert set(ewc) < set(losses)  # the first experience has no terms but its own loss
    for step in ewc:
        mean = (task[step] + replay[step]) / 2
        assert losses[step] == pytest.approx(mean + ewc[step], rel=1e-4)


def test_media_are_there_for_each_experience(folder: Path, logged: Logged) -> None:
    for key in ("matrix/nrows", "matrix_image/path", "videos/path", "matrix_image/_type"):
        values = [(row["experience"], row[key]) for row in logged.rows if key in row]
        assert [place for place, _ in values] == [1, 2], (key, sorted(logged.rows[-1]))
    assert [v for _, v in logged.column("matrix/nrows")] == [2, 3]  # with the row "before"
    assert [v for _, v in logged.column("act/seen/nrows")] == [1, 2]
    files = folder / "run" / "wandb"
    for _, name in logged.column("videos/path"):
        (sent,) = files.glob(f"offline-run-*/files/{name}")
        assert sent.read_bytes()[:3] == b"GIF"
    assert [row["experience"] for row in logged.rows if "eval/mean" in row] == [0, 1, 2]
    assert logged.axes["eval/mean"] == logged.axes["matrix"] == "experience"


def test_a_run_is_described_and_its_results_are_artifacts(folder: Path, logged: Logged) -> None:
    assert logged.config["logging"]["log_every_n_steps"] == 1
    written = yaml.safe_load((folder / "run" / "config.yaml").read_text())
    assert logged.config["strategy"] == written["strategy"]
    run = logged.run
    assert run.run_group == "point_robot/ewc+er+act"
    assert run.job_type == "fit"
    assert run.notes == "a robot"
    assert set(run.tags) >= {"point_robot", "ewc+er+act", "ours"}
    results = logged.artifacts[f"results-{run.run_id}"]
    assert [entry.path for entry in results.manifest.contents] == [
        "config.yaml",
        "matrix.csv",
        "results.json",
    ]
    kept = logged.artifacts[f"checkpoint-{run.run_id}"]
    assert "final" in kept.aliases
    assert any(entry.path.endswith(".pt") for entry in kept.manifest.contents)
