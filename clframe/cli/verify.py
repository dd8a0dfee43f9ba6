"""``clframe verify RUN``: whether a run is what it says."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from clframe.cli.parser import Parser
from clframe.utils.console import colored, print_out
from clframe.utils.setting_checks import at_least


def parser() -> Parser:
    """The arguments of the command."""
    parser = Parser(
        "verify",
        "Check a finished run's files against each other, learn one of its experiences again from "
        "the checkpoint before it, and compare weights, states and the row of the matrix.",
        [
            ("clframe fit strategy=ewc", "a run that can be"),
            ("clframe verify RUN", "its last experience"),
            ("clframe verify RUN --experience 2", "its second"),
        ],
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder, or a bundle of one")
    parser.add_plugin_path()
    parser.add_argument(
        "--experience", metavar="K", help="which to learn again: its number or name; else the last"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        metavar="T",
        help="relative deviation allowed on other hardware; 0, the default, asks for equal bits",
    )
    return parser


def main(words: Sequence[str]) -> int:
    """Print what was found; 1 if the run is not what it says."""
    arguments = parser().parse(words)
    at_least(arguments.tolerance, 0, "--tolerance")
    from clframe.reproduce.bundle import opened
    from clframe.reproduce.verify import verify

    with opened(arguments.run) as folder:
        findings = verify(folder, arguments.experience, arguments.tolerance, arguments.plugin_path)
    color = colored(sys.stdout)
    for finding in findings:
        mark = "ok" if finding.good else "FAILED"
        shown = f"\x1b[{32 if finding.good else 31}m{mark:<7}\x1b[0m" if color else f"{mark:<7}"
        print_out(f"{shown} {finding.what}: {finding.words}")
    if all(finding.good for finding in findings):
        print_out(f"verified: {arguments.run}")
        return 0
    print_out(f"NOT verified: {arguments.run}")
    return 1
