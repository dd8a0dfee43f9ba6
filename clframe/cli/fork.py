"""``clframe fork RUN --at EXPERIENCE``: start a new run from the end of any experience of a run."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from clframe.cli.parser import Parser
from clframe.distributed import launch
from clframe.errors import SettingError
from clframe.utils.console import print_lines, print_out
from clframe.utils.processes import hangup


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(
        "fork",
        "Start a new run from the end of an experience of another one, with other settings, "
        "another strategy, another order of the remaining experiences, or other data. Or learn "
        "several orders of one stream as a tree, in which common prefixes are learned once.",
        [
            ("clframe fit strategy=er", "a run to fork"),
            ("clframe fork RUN --at 2 optimizer.lr=0.01", "other settings after its second"),
            ("clframe fork RUN --at exp1 strategy=ewc", "another strategy"),
            ("clframe fork RUN --at 2 'experience_order=[0,1,4,3,2]'", "another order"),
            ("clframe fork --orders '0,1,2,3,4;0,1,3,2,4' --out orders strategy=er", "a tree"),
        ],
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="the run folder to fork")
    parser.add_settings("changes from RUN; with --orders, settings of all runs")
    parser.add_argument(
        "--at",
        metavar="EXPERIENCE",
        help="the last experience to keep: its name or number (1 is the first, 0 is untrained)",
    )
    parser.add_argument(
        "--orders",
        metavar="A,B,...;...",
        help="orders of the stream's experiences by number from 0 or name, learned as a tree",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="the folder of the runs of --orders"
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Train, and show the matrix; of several orders, the tree."""
    arguments = parser().parse(argv)
    for number in (signal.SIGTERM, *hangup()):
        signal.signal(number, signal.default_int_handler)
    arguments_of_orders = [
        word for word in (arguments.run, *arguments.settings) if word is not None
    ]
    if arguments.orders is not None:
        return _orders(arguments.orders, arguments.out, arguments_of_orders, arguments.at)
    run, settings = arguments.run, arguments.settings
    if run is None or ("=" in run and not Path(run).exists()):
        raise SettingError("clframe fork: name the run to fork: clframe fork RUN --at EXPERIENCE")
    if arguments.at is None:
        raise SettingError(
            f"clframe fork: name the last experience of '{run}' to keep: --at EXPERIENCE"
        )
    if arguments.out is not None:
        raise SettingError("--out is for --orders; the folder of a single fork is run_dir=DIR")
    from clframe.cli._show_result import show
    from clframe.reproduce.fork import fork_words

    with launch.command(["fork", *argv]):
        result = fork_words(Path(run).expanduser(), arguments.at, settings)
    if launch.is_main_process():
        show(result)
    return 0


def _orders(text: str, out: Path | None, settings: Sequence[str], at: str | None) -> int:
    """Learn a tree of orders."""
    if at is not None:
        raise SettingError(
            "--at is for a single fork; --orders finds where orders diverge by itself"
        )
    if out is None:
        raise SettingError("--orders needs a folder for its runs: --out DIR")
    from clframe.reproduce.order_tree import learn_orders, read_orders

    report = learn_orders(read_orders(text), out, settings)
    print_out()
    print_lines(report.text)
    return 0
