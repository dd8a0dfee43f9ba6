"""What commands print fits 80 columns, and holds no escapes where there is no terminal."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clframe.cli import commands
from clframe.cli.main import main

ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
FIT = ["fit", "stream=split_mnist", "model.hidden=[8]", "max_epochs=1", "logger=none"]
# Each command in a form that is cheap; RUN is a finished run, SWEEP the folder of two.
COMMANDS = (
    ["--help"],
    *([command.name, "--help"] for command in commands.BUILT_IN),
    ["list"],
    ["list", "--long"],
    ["list", "ewc"],
    ["list", "experiments"],
    ["doctor"],
    ["compare", "SWEEP"],
    ["report", "RUN"],
    ["watch", "RUN", "--once"],
    ["watch", "SWEEP", "--once"],
    ["eval", "RUN"],
    ["data", "check", "mnist", "."],
    ["demos", "check", "nothing"],
    ["l2", "RUN/log"],
    ["fit", "stratgy=ewc"],
    [*FIT, "run_dir=shown"],
)

_LONG = ("fit", "doctor", "eval", "report", "l2", "compare")
"""These take longer: once on a terminal with colors refused, and once on a pipe."""


class Output(io.TextIOWrapper):
    """What is printed, as a terminal or as a pipe."""

    def __init__(self, terminal: bool) -> None:
        self.kept = io.BytesIO()
        super().__init__(self.kept, encoding="utf-8", write_through=True)
        self.terminal = terminal

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self.terminal

    @property
    def text(self) -> str:
        """All that was printed."""
        return self.kept.getvalue().decode()


@contextlib.contextmanager
def printing(terminal: bool) -> Iterator[tuple[Output, Output]]:
    with pytest.MonkeyPatch.context() as patch:
        out, err = Output(terminal), Output(terminal)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        patch.setenv("COLUMNS", "80")
        yield out, err


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs in a folder with the record of a sweep, and what the first of them printed."""
    folder = tmp_path_factory.mktemp("output")
    entries = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for seed in (0, 1):
            words = ["strategy=ewc", "strategy.ewc.samples=8", f"seed={seed}"]
            with printing(terminal=False) as (out, err):
                assert main([*FIT, *words, f"run_dir=sweep/seed{seed}"]) == 0, err.text
            (folder / "output.txt").write_text(out.text + err.text)
            entries[f"seed{seed}"] = {"state": "finished"}
    record = {"schema": 1, "keys": ["seed"], "runs": entries}
    (folder / "sweep/sweep.json").write_text(json.dumps(record))
    return folder


def too_long(text: str) -> list[str]:
    """Lines of more than 80 columns that could have been broken between words.

    What is drawn over itself counts piece by piece; what is to be pasted, or read by a program,
    stays whole.
    """
    lines = re.split(r"[\r\n]", ESCAPE.sub("", text))
    pasted = re.compile(r"\s*\S+$|\s*clframe |    \w+=\S|\{")
    return [line for line in lines if len(line) > 80 and not pasted.match(line)]


def test_a_fit_on_a_pipe_is_plain(here: Path) -> None:
    text = (here / "output.txt").read_text()
    assert "\x1b" not in text
    assert "[5/5] exp4" in text
    assert too_long(text) == []


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words)[:40])
def test_it_fits_80_columns_and_is_plain_on_a_pipe(
    words: list[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    runs = sorted(str(path.relative_to(here)) for path in (here / "sweep").glob("seed*"))
    words = [w.replace("RUN", runs[0]).replace("SWEEP", "sweep") for w in words]
    for terminal in (True, False):
        for no_color in ("1", ""):
            if words[0] in _LONG and bool(no_color) != terminal:
                continue
            monkeypatch.setenv("NO_COLOR", no_color)
            with printing(terminal) as (out, err):
                given = [f"{w}{terminal:d}" if w.startswith("run_dir=") else w for w in words]
                code = main(given)
            text = out.text + err.text
            assert code in (0, 2), text
            assert "Traceback" not in text
            # Tables are not folded for programs, and those of l2 have the columns they have.
            if words[0] != "l2" and (terminal or words[0] != "compare"):
                assert too_long(text if terminal else out.text) == []
            colors = "\x1b[38" in text
            assert not (colors and (no_color or not terminal))
            if not terminal:
                assert "\x1b" not in text


def test_a_run_without_progress_says_nothing_on_the_way(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here)
    for terminal in (True, False):
        with printing(terminal) as (out, err):
            assert main([*FIT, "progress=false", f"run_dir=quiet{terminal:d}"]) == 0
        assert err.text == ""
        assert "run folder: quiet" in out.text
    assert not os.path.exists("quiet0/status.json")
