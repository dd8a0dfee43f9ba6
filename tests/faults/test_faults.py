"""Runs that end before any file operation, and run folders with damaged files: a sample of each.

The whole of it are benchmarks/crash_points.py, power_cut.py and damaged_files.py themselves.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks after imports")


def run(name: str, place: Path, *words: str) -> Any:
    """What a benchmark found, none of it bad."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *words, "--json", "found.json"],
        cwd=place,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((place / "found.json").read_text())


def test_runs_that_end_at_any_file_operation_end_with_the_same_bits(tmp_path: Path) -> None:
    # The log and the table are where runs were lost once, so all of their operations are tried.
    places = "(rmdir|remove|rename|mkdir) (log|csv)/|half a write csv"
    words = ("--cases", "naive,ewc+replay+lwf", "--every", "6", "--always", places)
    found = run("crash_points.py", tmp_path, *words)
    assert set(found) == {"naive", "ewc+replay+lwf"}
    for kinds in found.values():
        for kind in ("run", "resumed"):
            assert kinds[kind]["operations"] > 100
            assert kinds[kind]["continued"] >= 15
            assert not kinds[kind]["bad"]


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace here")
def test_what_a_power_cut_may_leave_is_resumed_with_the_same_bits(tmp_path: Path) -> None:
    found = run("power_cut.py", tmp_path, "--cases", "tensorboard", "--states", "12")
    for model in ("ext4", "strict"):
        assert found["tensorboard"][model]["states"] > 100
        assert found["tensorboard"][model]["resumed"] == 12
        assert not found["tensorboard"][model]["bad"]


def test_damaged_files_are_named_or_make_no_difference(tmp_path: Path) -> None:
    found = run("damaged_files.py", tmp_path, "--trials", "60")
    assert len(found) == 60
    ends = [trial[4] for trial in found]
    assert set(ends) == {"refused", "same"}
