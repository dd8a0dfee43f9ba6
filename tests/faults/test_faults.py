"""Runs that end before any file operation, and run folders with damaged files: a sample of each.

The whole of it are benchmarks/crash_points.py, power_cut.py and damaged_files.py themselves. The
quick tier covers flushes in tests/checkpoint/test_flushes.py, kills in test_kill.py and damaged
files in tests/security.
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
pytestmark = [
    pytest.mark.slow(minutes=2),
    pytest.mark.skipif(sys.platform != "linux", reason="forks after imports"),
]


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


def test_runs_that_end_at_any_file_operation_end_with_the_same_bits(
    clframe_process: ProcessServer, tmp_path: Path
) -> None:
    words = ("--cases", "naive,ewc+replay+lwf", "--every", "6", "--always", PLACES)
    found = run(clframe_process, "crash_points.py", tmp_path, *words)
    assert set(found) == {"naive", "ewc+replay+lwf"}
    for kinds in found.values():
        for kind in ("run", "resumed"):
            assert kinds[kind]["operations"] > 100
            assert kinds[kind]["continued"] >= 15
            assert not kinds[kind]["bad"]


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


def test_damaged_files_are_named_or_make_no_difference(
    clframe_process: ProcessServer, tmp_path: Path
) -> None:
    found = run(clframe_process, "damaged_files.py", tmp_path, "--trials", "60")
    assert len(found) == 60
    ends = [trial[4] for trial in found]
    assert set(ends) == {"refused", "same"}
