"""Real processes killed with SIGKILL; the thorough version is benchmarks/kill.py itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill.py"


@pytest.mark.skipif(sys.platform != "linux", reason="forks after imports")
def test_killed_runs_end_with_the_same_bits(tmp_path: Path) -> None:
    words = ["--kills", "4", "--strategies", "naive,packnet,dgr", "--json", "kills.json"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kills_of = json.loads((tmp_path / "kills.json").read_text())
    assert set(kills_of) == {"naive", "packnet", "dgr"}
    for kills in kills_of.values():
        assert kills["kills"] == 4
        assert kills["equal"] == kills["runs"] >= 1
