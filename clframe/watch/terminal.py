"""Follow a run in the terminal: redrawn in place, or plain lines on a pipe."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any, TextIO

from clframe.utils.console import colored, print_lines
from clframe.watch import text_view
from clframe.watch.resolve import OneRun, SweepWatcher
from clframe.watch.run import FAILED, RUNNING

_EVERY = 0.5
"""Seconds between two looks at the folder."""
_LINE_EVERY = 30.0
"""Seconds between two lines on a pipe while nothing finishes."""


def once(watched: OneRun | SweepWatcher) -> int:
    """Print the current state."""
    view = watched.view()
    _print(text_view.draw(view, _width(), None, colored(sys.stdout), _blocks(sys.stdout)))
    return _code(view)


def follow(watched: OneRun | SweepWatcher) -> int:
    """Show the run until it ends.

    Returns:
        0, or 2 if the run has failed.
    """
    if sys.stdout.isatty():
        return _redraw(watched)
    before: dict[str, Any] | None = None
    next_line, shown = 0.0, ""
    while True:
        view = watched.view()
        lines = text_view.change(before, view)
        run = view if view["kind"] == "run" else view["run"]
        now = text_view.place(run) if run is not None and view["state"] == RUNNING else ""
        if lines:
            next_line = time.monotonic() + (0.0 if before is None else _LINE_EVERY)
        elif now and now != shown and time.monotonic() >= next_line:
            lines, shown, next_line = [now], now, time.monotonic() + _LINE_EVERY
        _print(lines)
        before = view
        if view["state"] != RUNNING:
            if view["kind"] == "run":
                _print(["", *text_view.draw(view, _width(), None, colored(sys.stdout), False)])
            else:
                _print([view["sentence"]])
            return _code(view)
        time.sleep(_EVERY)


def _redraw(watched: OneRun | SweepWatcher) -> int:
    """Redraw over the previous lines."""
    drawn = 0
    last: list[str] = []
    while True:
        view = watched.view()
        ended = view["state"] != RUNNING
        size = shutil.get_terminal_size((80, 24))
        height = None if ended else size.lines - 1
        # One column stays free, so that the terminal does not wrap a line.
        lines = text_view.draw(
            view, size.columns - 1, height, colored(sys.stdout), _blocks(sys.stdout)
        )
        if height is not None:
            lines = lines[:height]
        if lines != last or ended:
            up = f"\x1b[{drawn}F" if drawn else ""
            sys.stdout.write(f"{up}\x1b[J")
            print_lines(lines)
            sys.stdout.flush()
            drawn, last = len(lines), lines
        if ended:
            return _code(view)
        time.sleep(_EVERY)


def _print(lines: list[str]) -> None:
    if lines:
        print_lines(lines)


def _width() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def _blocks(stream: TextIO) -> bool:
    """Return whether the terminal's encoding has block characters."""
    return (stream.encoding or "").lower().replace("-", "") in ("utf8", "utf16", "utf32")


def _code(view: dict[str, Any]) -> int:
    return 2 if view["state"] == FAILED else 0
