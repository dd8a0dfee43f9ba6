"""Real processes killed with SIGKILL; the thorough version is benchmarks/kill.py itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from clframe.core.registry import discover
from clframe.strategies import known_strategies

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


def test_every_strategy_is_killed(load_benchmark: Callable[[str], ModuleType]) -> None:
    kill = load_benchmark("kill")
    registry = discover([])
    cases = kill.cases(registry)
    assert set(cases) == {*known_strategies(registry), *kill.COMPOSITIONS, *kill.BY_REWARD}
    assert {"gdumb", "icarl", "xdg", "rtf", "continual_world"} <= set(cases)
    assert "scenario=task" in cases["packnet"].words
    kills = kill.spread(300, list(cases))
    assert sum(kills.values()) == 300
    assert max(kills.values()) - min(kills.values()) <= 1


def test_a_strategy_that_needs_settings_is_named(tmp_path: Path) -> None:
    code = (
        "import kill, pathlib; from clframe.core.registry import discover; discover([])\n"
        "kill.finish_whole('mine', ['strategy=continual_world'], pathlib.Path('run'), "
        "pathlib.Path('log').absolute())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SCRIPT.parent), "OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("mine cannot be run with the settings that all strategies get")
    assert "plugin 'continual_world'" in done.stderr


def test_a_table_is_put_where_a_page_has_its_place(
    load_benchmark: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    put_table = load_benchmark("marked_page").put_table
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- kills -->\nold\n<!-- end of kills -->\nbelow\n")
    for _ in range(2):
        put_table(page, "kills", "| new |")
        assert page.read_text() == (
            "above\n<!-- kills -->\n\n| new |\n\n<!-- end of kills -->\nbelow\n"
        )
    with pytest.raises(SystemExit, match="has no place for the table of falls"):
        put_table(page, "falls", "")
