"""``clframe verify RUN``: check that a run is as recorded."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from clframe.cli.parser import Parser
from clframe.utils.console import colored, print_out
from clframe.utils.setting_checks import at_least


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(
        "verify",
        "Check a finished run's files against each other, retrain one of its experiences from "
        "the checkpoint before it, and compare weights, states and the row of the matrix.",
        [
            ("clframe fit strategy=ewc", "a run to verify"),
            ("clframe verify RUN", "its last experience"),
            ("clframe verify RUN --experience 2", "its second"),
        ],
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder, or a bundle of one")
    parser.add_plugin_path()
    parser.add_argument(
        "--experience", metavar="K", help="number or name of the one to retrain; default: the last"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        metavar="T",
        help="relative deviation allowed on other hardware; default: 0, for equal bits",
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Print the findings; return 1 if the run is not as recorded."""
    arguments = parser().parse(argv)
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
