"""Loggers of a resumed run: the same run, every point once; a dead server is no matter."""

from __future__ import annotations

import csv
import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import wandb_runs
from tests.helpers.tensorboard_files import points_of_board


def table(run: str) -> list[dict[str, str]]:
    with Path(run, "csv/metrics.csv").open(newline="") as file:
        return [dict(sorted(row.items())) for row in csv.DictReader(file)]


def events(run: str) -> list[dict[str, Any]]:
    lines = Path(run, "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return [{k: v for k, v in event.items() if k != "seconds"} for event in events]


def test_files_hold_every_point_once(fit: Any, same: Any) -> None:
    loggers = "logger=[csv,tensorboard]"
    assert fit("run_dir=whole", loggers) == 0
    # Stopped in the second epoch, then asked to leave at once: points are logged and lost twice.
    assert fit("run_dir=part", loggers, "checkpoint.every_n_steps=4", act="13:SIGTERM") == 130
    assert fit("resume=part", act="19:twice") == 130
    assert len(table("part")) <= len(table("whole"))
    assert fit("resume=part", act="5:twice") == 130
    assert fit("resume=part") == 0
    assert same("whole", "part")
    assert table("part") == table("whole")
    assert events("part") == events("whole")
    assert sorted(points_of_board("part")) == sorted(points_of_board("whole"))
    assert len(points_of_board("whole")) > 20


def test_events_that_somebody_cut_do_not_end_the_run(
    fit: Any, same: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert fit("run_dir=whole") == 0
    assert fit("run_dir=part", act="13:SIGTERM") == 130
    os.truncate("part/events.jsonl", 0)
    capfd.readouterr()
    assert fit("resume=part") == 2
    error = capfd.readouterr().err
    assert "'part/events.jsonl' has 0 bytes, but the run had written" in error
    assert "resume.allow=[files]" in error
    assert fit("resume=part", "resume.allow=[files]") == 0
    assert "the missing part is lost" in capfd.readouterr().err
    assert same("whole", "part")


@pytest.mark.parametrize("name", ["csv/metrics.csv", "tensorboard/events", "log/worker-default"])
def test_a_changed_file_that_is_written_to_again_is_named(
    fit: Any, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert fit("run_dir=part", "logger=[csv,tensorboard]", act="13:SIGTERM") == 130
    path = min(path for path in Path("part").rglob("*") if path.is_file() and name in str(path))
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    capfd.readouterr()
    assert fit("resume=part") == 2
    error = capfd.readouterr().err
    assert len(error.splitlines()) == 1
    assert f"'{path}'" in error


CODE = """
import os, signal, sys
import clframe
from clframe import Plugin, hookimpl
from clframe.testing import toy_stream
class Act(Plugin):
    steps = 0
    @hookimpl
    def after_step(self):
        self.steps += 1
        if self.steps == int(os.environ.get("AT", 0)):
            os.kill(os.getpid(), getattr(signal, os.environ["SIGN"]))
try:
    clframe.fit(toy_stream(), Act(), max_epochs=4, logger={"wandb": {"timeout": 5}}, batch_size=16,
                run_dir="run", progress=False, resume="auto", checkpoint={"every_n_steps": 3})
except KeyboardInterrupt:
    sys.exit(130)
"""


def run_wandb(folder: Path, **variables: str) -> tuple[int, str]:
    done = wandb_runs.run(CODE, folder, **variables)
    return done.returncode, done.stderr


@pytest.mark.slow
def test_wandb_continues_as_the_same_run(tmp_path: Path) -> None:
    """Stopped and marked as such; what a kill does is in tests/loggers/test_wandb_robot.py."""
    assert run_wandb(tmp_path, WANDB_MODE="offline", AT="27", SIGN="SIGTERM")[0] == 130
    (path,) = (tmp_path / "run/wandb").glob("offline-run-*/*.wandb")
    codes = [record.exit.exit_code for record in wandb_runs.records(path)]
    assert [code for code in codes if code] == [255]
    code, error = run_wandb(tmp_path, WANDB_MODE="offline")
    assert code == 0, error
    _check_whole(tmp_path)


def _check_whole(tmp_path: Path) -> None:
    """One file under the id of the first start holds every point once, in order."""
    (folder,) = (tmp_path / "run/wandb").glob("offline-run-*")
    known = json.loads((tmp_path / "run/wandb/clframe.json").read_text())
    assert folder.name.endswith(known["id"])
    assert len(_logged([folder], "train/loss")) == 12
    assert len(_logged([folder], "eval/mean")) == 4
    assert len(_logged([folder], "matrix/nrows")) == 3
    steps = [int(value) for value in _logged([folder], "_step")]
    # 3 experiences of 4 epochs, 4 rows, 3 matrices, the metrics: each once.
    assert len(steps) == 12 + 4 + 3 + 1
    assert steps == list(range(len(steps)))
    of_run = [int(value) for value in _logged([folder], "trainer/global_step")]
    assert of_run == sorted(of_run)


def _logged(folders: list[Path], key: str) -> list[str]:
    """All values of a key in the files of offline runs."""
    points = []
    for folder in folders:
        (path,) = folder.glob("*.wandb")
        for record in wandb_runs.records(path):
            points += [
                item.value_json for item in record.history.item if wandb_runs.key_of(item) == key
            ]
    return points


@pytest.mark.slow
def test_a_server_that_takes_the_connection_and_is_silent_does_not_end_the_run(
    tmp_path: Path,
) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(50)
        taken: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    taken.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        code, error = run_wandb(
            tmp_path,
            WANDB_API_KEY="0" * 40,
            WANDB_BASE_URL=f"http://127.0.0.1:{server.getsockname()[1]}",
        )
        for connection in taken:
            connection.close()
    assert code == 0, error
    assert "this run is logged offline" in error
    assert "Traceback" not in error
    # That it is silent for ever is seen by the deadline of the process.
    assert (tmp_path / "run/results.json").exists()
