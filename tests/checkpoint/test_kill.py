"""Real processes killed with SIGKILL; the thorough version is benchmarks/kill.py itself."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from clframe.core.registry import discover
from clframe.strategies import known_strategies
from tests.helpers.processes import ProcessServer

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill.py"


@pytest.mark.skipif(sys.platform != "linux", reason="forks after imports")
@pytest.mark.parametrize(
    ("strategies", "kills"),
    [("naive", 2), pytest.param("naive,packnet,dgr", 4, marks=pytest.mark.slow)],
)
def test_killed_runs_end_with_the_same_bits(
    strategies: str, kills: int, clframe_process: ProcessServer, tmp_path: Path
) -> None:
    words = ["--kills", str(kills), "--strategies", strategies, "--json", "kills.json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = clframe_process.run(str(SCRIPT), *words, folder=tmp_path, environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    kills_of = json.loads((tmp_path / "kills.json").read_text())
    assert set(kills_of) == set(strategies.split(","))
    for found in kills_of.values():
        assert found["kills"] == kills
        assert found["equal"] == found["runs"] >= 1


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


def test_a_strategy_that_needs_settings_is_named(
    clframe_process: ProcessServer, tmp_path: Path
) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r})\n"
        "import kill, pathlib; from clframe.core.registry import discover; discover([])\n"
        "kill.finish_whole('mine', ['strategy=continual_world'], pathlib.Path('run'), "
        "pathlib.Path('log').absolute())"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = clframe_process.run("-c", code, folder=tmp_path, environment=environment, seconds=300)
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
