from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

import pytest

import clframe
from clframe.loggers import wandb as wandb_logger
from clframe.testing import toy_stream
from tests.helpers import wandb_runs

CODE = """
import clframe
from clframe.testing import toy_stream
clframe.fit(toy_stream(), max_epochs=2, logger="wandb", run_dir="run", progress=False, seed=4)
"""


def run_offline(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    done: subprocess.CompletedProcess[str] = wandb_runs.run(CODE, folder, **variables)
    return done


@pytest.mark.slow
def test_wandb_without_key_falls_back_to_offline_with_one_sentence(tmp_path: Path) -> None:
    done = run_offline(tmp_path)
    assert done.returncode == 0, done.stderr
    sentences = [line for line in done.stderr.splitlines() if line.startswith("clframe:")]
    assert len(sentences) == 1
    assert "no API key is configured, so this run is logged offline" in sentences[0]
    assert list((tmp_path / "run").rglob("offline-run-*"))


def test_wandb_with_a_key_but_no_server_falls_back_to_offline(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    assert wandb_logger.choose_mode() == "offline"
    assert "does not answer, so this run is logged offline" in capfd.readouterr().err


def test_wandb_is_online_when_key_and_server_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        assert wandb_logger.choose_mode() == "online"


def test_csv_and_tensorboard_write_into_the_run_folder(tmp_path: Path) -> None:
    clframe.fit(
        toy_stream(),
        max_epochs=2,
        logger=["csv", "tensorboard"],
        run_dir=tmp_path / "run",
        progress=False,
    )
    table = (tmp_path / "run/csv/metrics.csv").read_text().splitlines()
    assert "train/loss" in table[0]
    assert len(table) > 6
    assert list((tmp_path / "run/tensorboard").glob("events.out.tfevents.*"))


SEEDS = """
from clframe.config.run_config import RunConfig
from clframe.sweep.seeds import fit_seeds
from clframe.testing import toy_stream
config = RunConfig(toy_stream(), logger="wandb", run_dir="many", progress=False,
                   trainer={"max_epochs": 2})
fit_seeds(config, [3, 4])
"""


@pytest.mark.slow
def test_each_seed_is_a_wandb_run_of_its_own(tmp_path: Path) -> None:
    done = wandb_runs.run(SEEDS, tmp_path, WANDB_MODE="offline")
    assert done.returncode == 0, done.stderr
    assert "left out from now on" not in done.stderr
    ids, key_of = [], wandb_runs.key_of
    for seed in (3, 4):
        (path,) = (tmp_path / "many" / f"s{seed}").rglob("*.wandb")
        rows = (tmp_path / "many" / f"s{seed}" / "events.jsonl").read_text().splitlines()
        losses = [json.loads(row)["loss"] for row in rows if '"event": "epoch"' in row]
        logged, config = [], {}
        for record in wandb_runs.records(path):
            for item in record.history.item:
                if key_of(item) == "train/loss":
                    logged.append(float(item.value_json))
            for item in [*record.run.config.update, *record.config.update]:
                config[key_of(item)] = item.value_json
            if record.run.run_id:
                ids.append(record.run.run_id)
                assert record.run.run_group == "many"
        assert logged == losses
        assert config["seed"] == str(seed)
    assert len(set(ids)) == 2
