"""A bar on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from clframe.utils import progress
from clframe.utils.progress import ProgressMeter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ProgressMeter("rendering", 2000, "images", summary=True) as meter:
        meter.update(5)
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(meter, "_next_line", 0.0)
        meter.update(1000)
        assert capsys.readouterr().err == "clframe: rendering: 1,005 of 2,000 images\n"
        meter.update(5)  # not so soon
        monkeypatch.setattr(meter, "_next_line", 0.0)
        meter.update(990)  # the summary shows the end
        assert capsys.readouterr().err == ""
    assert capsys.readouterr().err.startswith("clframe: rendering: 2,000 images in 0.")


def test_nothing_is_left_of_short_work(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressMeter("demonstrations", 2, "tasks") as meter:
        meter.update()
    assert capsys.readouterr().err == ""
    assert meter.count == 1


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "_LINE_EVERY", 0.0)
    with ProgressMeter("demonstrations", 4, "tasks") as meter:
        meter.update(3)
    shown = terminal.getvalue()
    assert "demonstrations:   0%" in shown
    assert "clframe:" not in shown
    assert shown.endswith("\r")  # the bar is taken away
