"""Odd command lines, drawn from all settings: a run or one sentence, never a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from clframe.build import build
from clframe.config.compose import compose
from clframe.config.run_config import RunConfig
from clframe.errors import SettingError

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_hundred_odd_lines(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "odd_lines.py"), "--count", "100"]
    done = subprocess.run(
        [*command, "--seed", "1", "--out", str(tmp_path / "out.json")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads((tmp_path / "out.json").read_text())["counts"]
    assert set(counts) == {"ran", "refused"}
    assert sum(counts.values()) == 100
    assert counts["ran"] > 5


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("optimizer.lr=inf", "must be finite, got inf"),
        ("model.dropout=inf", "must be finite, got inf"),
        ("trainer.batch_size=100000000000000000000000", "at most 64 bits"),
        ("pretrain=[]", "pretrain must be the name of a folder, got \\[\\]"),
        ("run_dir={}", "run_dir must be the name of a folder"),
    ],
)
def test_values_that_no_setting_can_have(word: str, sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        build(compose([word]))


def test_a_folder_may_be_called_by_a_number() -> None:
    assert RunConfig(run_dir=1).run_dir == "1"  # type: ignore[arg-type]
