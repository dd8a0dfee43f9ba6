"""``clframe watch``: follow a run in the terminal or on a page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.cli.parser import Parser
from clframe.errors import SettingError
from clframe.utils.console import print_out

if TYPE_CHECKING:
    from clframe.watch.resolve import OneRun, SweepWatcher


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(
        "watch",
        "Follow a run: its current work, the matrix as it fills, curves, and the time left for the "
        "whole stream. It only reads the run folder and ends with the run.",
        [
            ("clframe watch runs", "the newest run below this folder"),
            ("clframe watch runs --once", "print its state and exit"),
            ("clframe watch runs --web --open", "a page in the browser that updates by itself"),
        ],
    )
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="a run folder, a sweep folder, or one above runs"
    )
    parser.add_argument("--once", action="store_true", help="print the state and exit")
    parser.add_argument(
        "--web", action="store_true", help="serve a page to this machine until Ctrl-C"
    )
    parser.add_argument(
        "--port", type=_port, metavar="N", help="port of the page; default: a free one"
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    return parser


def main(argv: Sequence[str]) -> int:
    """Follow a run until it ends or Ctrl-C is pressed."""
    arguments = parser().parse(argv)
    if arguments.web and arguments.once:
        raise SettingError("--once prints the state and --web serves a page; leave one of them out")
    for name in ("port", "open"):
        if getattr(arguments, name) and not arguments.web:
            raise SettingError(f"--{name} is for the page; add --web")
    from clframe.watch import terminal
    from clframe.watch.resolve import watcher

    watched = watcher(arguments.run)
    try:
        if arguments.web:
            return _serve(watched, arguments)
        return terminal.once(watched) if arguments.once else terminal.follow(watched)
    except KeyboardInterrupt:
        print_out()  # The run continues; only watching ends.
        return 130


def _serve(watched: OneRun | SweepWatcher, arguments: argparse.Namespace) -> int:
    import webbrowser

    from clframe.watch.server import PageServer

    with PageServer(watched, arguments.port) as server:
        print_out(f"{server.address} (Ctrl-C ends)")
        if arguments.open:
            webbrowser.open(server.address)
        server.wait()
    return 0


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:6]) <= 65535:
        raise argparse.ArgumentTypeError(f"must be a port from 1 to 65535, got '{text}'")
    return int(text)
