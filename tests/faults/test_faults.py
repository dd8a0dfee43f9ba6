"""Runs that end before any file operation, and run folders with damaged files: a sample of each.

The whole of it are benchmarks/crash_points.py, power_cut.py and damaged_files.py themselves. The
quick tier tries a few cases of each; the slow tier tries more.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.processes import ProcessServer

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks after imports")


def run(server: ProcessServer, name: str, place: Path, *words: str) -> Any:
    """What a benchmark found, none of it bad."""
    done = server.run(
        str(BENCHMARKS / name),
        *words,
        "--json",
        "found.json",
        folder=place,
        environment={**os.environ, "OMP_NUM_THREADS": "1"},
        seconds=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((place / "found.json").read_text())


# The log and the table are where runs were lost once, so all of their operations are tried.
PLACES = "(rmdir|remove|rename|mkdir) (log|csv)/|half a write csv"


@pytest.mark.parametrize(
    ("cases", "sample", "least"),
    [
        ("naive", ["--every", "45"], 2),
        pytest.param(
            "naive,ewc+replay+lwf",
            ["--every", "6", "--always", PLACES],
            15,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["few", "many"],
)
def test_runs_that_end_at_any_file_operation_end_with_the_same_bits(
    cases: str, sample: list[str], least: int, clframe_process: ProcessServer, tmp_path: Path
) -> None:
    found = run(clframe_process, "crash_points.py", tmp_path, "--cases", cases, *sample)
    assert set(found) == set(cases.split(","))
    for kinds in found.values():
        for kind in ("run", "resumed"):
            assert kinds[kind]["operations"] > 100
            assert kinds[kind]["continued"] >= least
            assert not kinds[kind]["bad"]


# Starts an interpreter under strace. tests/checkpoint/test_flushes.py covers the flushes quickly.
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace here")
def test_what_a_power_cut_may_leave_is_resumed_with_the_same_bits(
    clframe_process: ProcessServer, tmp_path: Path
) -> None:
    words = ("--cases", "tensorboard", "--states", "12")
    found = run(clframe_process, "power_cut.py", tmp_path, *words)
    for model in ("ext4", "strict"):
        assert found["tensorboard"][model]["states"] > 100
        assert found["tensorboard"][model]["resumed"] == 12
        assert not found["tensorboard"][model]["bad"]


@pytest.mark.parametrize("trials", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_damaged_files_are_named_or_make_no_difference(
    trials: int, clframe_process: ProcessServer, tmp_path: Path
) -> None:
    found = run(clframe_process, "damaged_files.py", tmp_path, "--trials", str(trials))
    assert len(found) == trials
    ends = [trial[4] for trial in found]
    assert set(ends) == {"refused", "same"}
