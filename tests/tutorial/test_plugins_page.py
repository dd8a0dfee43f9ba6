"""docs/plugins.md works as it is written, from the first line to the last."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from clframe.cli import commands
from clframe.cli.main import main
from clframe.core.results import Result
from clframe.testing.plugins import PluginContract

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.S | re.M)


@pytest.mark.slow
def test_the_page_works_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    plugin, test = (text for _, text in BLOCKS if text.startswith(("# settle.py", "# test_settle")))
    (tmp_path / "settle.py").write_text(plugin)
    names: dict[str, Any] = {"__name__": "settle"}
    exec(compile(plugin, "settle.py", "exec"), names)
    exec(compile(test, "test_settle.py", "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for one in tests:
        one()
    lines = [
        line
        for language, text in BLOCKS
        for line in text.splitlines()
        if not language and line.startswith("clframe ")
    ]
    assert len(lines) == 3
    for number, line in enumerate(lines):
        words = shlex.split(line)[1:]
        quick = ["max_epochs=1", f"run_dir=run{number}"] if words[0] == "fit" else []
        capfd.readouterr()
        assert main([*words, *quick]) == 0, line
    assert [Result.load(f"run{n}").strategy for n in (0, 1)] == ["settle", "settle+replay"]
    # The last one is the trace, and the page shows what it prints, but for times.
    shown = next(text for _, text in BLOCKS if text.startswith("settle+replay on"))

    def without_times(text: str) -> list[list[str]]:
        return [re.sub(r" \d+\.\d\d", "", line).split() for line in text.strip().splitlines()]

    assert without_times(capfd.readouterr().out) == without_times(shown)


def test_every_command_that_is_named_can_be_read() -> None:
    inline = re.findall(r"(?<!`)`(clframe [^`]+)`(?!`)", PAGE.replace("\n", " "))
    for line in inline:
        _, name, *words = shlex.split(line)
        parser = commands.known()[name].parser()
        assert parser is not None
        if words:
            parser.parse(words)
    assert len(inline) > 8


def test_the_table_has_every_item_of_the_contract() -> None:
    section = PAGE.partition("\n## Check\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z ]+)` \|", section, re.M)
    items = PluginContract.checks(PluginContract.__new__(PluginContract))
    assert set(rows) == {*items, "settings", "batched seeds", "two processes", "output"}
