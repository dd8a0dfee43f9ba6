"""Signals save and leave; the run continues at the exact step."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest


def position(run: str) -> dict[str, Any]:
    newest = max(Path(run, "checkpoints").glob("*.json"))
    return dict(json.loads(newest.read_text())["position"])


@pytest.mark.parametrize("sign", ["SIGINT", "SIGTERM", "SIGUSR1"])
def test_a_signal_saves_after_the_step_and_leaves_with_130(
    fit: Any, same: Any, sign: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGINT)
    assert fit("run_dir=whole") == 0
    assert fit("run_dir=part", act=f"7:{sign}") == 130
    error = capfd.readouterr().err
    assert f"{sign}: saving after this step" in error
    assert "saved in experience exp0" in error
    assert "epoch 1, after step 7" in error
    assert fit("resume=part") == 0
    assert same("whole", "part")
    assert (signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGINT)) == before


def test_a_second_interrupt_leaves_at_once(
    fit: Any, same: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert fit("run_dir=whole") == 0
    assert fit("run_dir=part", act="7:twice") == 130
    assert "saved in" not in capfd.readouterr().err
    assert fit("resume=part") == 0
    assert same("whole", "part")


def test_another_signal_can_be_chosen(fit: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert fit("run_dir=run", "checkpoint.signals=[SIGUSR2]", act="3:SIGUSR2") == 130
    assert fit("run_dir=no", "checkpoint.signals=[SIGKILL]") == 2
    assert "'SIGKILL' is not a signal that can be caught" in capfd.readouterr().err
    assert not Path("no").exists()


def test_resume_auto_begins_and_continues(fit: Any, same: Any) -> None:
    assert fit("run_dir=whole") == 0
    assert fit("run_dir=part", "resume=auto", act="5:SIGTERM") == 130
    assert fit("run_dir=part", "resume=auto", act="9:SIGTERM") == 130
    assert fit("run_dir=part", "resume=auto") == 0
    assert same("whole", "part")


def test_resume_auto_needs_a_folder(fit: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert fit("resume=auto") == 2
    assert "give run_dir=FOLDER" in capfd.readouterr().err


def test_clocks_that_jump_change_nothing(
    fit: Any, same: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import random
    import time

    assert fit("run_dir=whole") == 0
    draw, real = random.Random(0), time.time
    monkeypatch.setattr(time, "time", lambda: real() + draw.choice((-1e6, 0.0, 1e6)))
    assert fit("run_dir=part", "checkpoint.every_seconds=0.01", act="9:SIGTERM") == 130
    assert fit("resume=part") == 0
    assert same("whole", "part")
    timing = json.loads(Path("part/results.json").read_text())["timing"]
    assert 0 < timing["train_seconds"] < 1000
    assert 0 < timing["eval_seconds"] < 1000


def test_the_default_run_is_saved_at_its_start_and_end(fit: Any) -> None:
    assert fit("run_dir=run") == 0
    assert position("run") == {"experiences_learned": 2, "rows": 3, "tasks_evaluated": 0}
    assert 1 <= len(list(Path("run/checkpoints").glob("*.pt"))) <= 4
    assert os.listdir("run/checkpoints") == [
        name for name in os.listdir("run/checkpoints") if name.endswith((".pt", ".json"))
    ]
