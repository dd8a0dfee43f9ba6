"""``clframe compare``: the strategies of runs in tables, with significance."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.cli.parser import Parser, whole
from clframe.cli.report import add_runs, read_runs
from clframe.errors import SettingError

if TYPE_CHECKING:
    from clframe.runs.reader import Run

_WORDS = ("text", "markdown")
"""Formats that paired tests are written in."""


def parser() -> Parser:
    """The arguments of the command."""
    from clframe.report.tables import FORMATS

    parser = Parser(
        "compare",
        "Compare strategies over seeds: mean, standard error, Welch's t-test at 0.05. Two runs of "
        "robot tasks are compared on the same episodes, too.",
        [
            ("clframe compare runs", "all runs below the folder"),
            ("clframe compare runs --metric gem.acc gem.bwt", "these metrics"),
            ("clframe compare runs --format latex --out table.tex", "for a paper (booktabs)"),
            ("clframe compare RUN_A RUN_B --sequential", "when would it have been decided?"),
            ("clframe compare RUN_A RUN_B --rollouts 200 --sequential", "run until it is decided"),
        ],
    )
    add_runs(parser, "a run folder or a folder above runs")
    add = parser.add_argument
    add("--metric", nargs="+", action="extend", default=[], metavar="NAME",
        help="such as gem.bwt or timing.train_seconds; 'all' for every metric")  # fmt: skip
    add("--by", nargs="+", action="extend", default=[], metavar="SETTING",
        help="settings that make rows of their own, such as trainer.max_epochs")  # fmt: skip
    add("--format", choices=sorted(FORMATS), default="text",
        help="text (default), markdown, latex (booktabs), csv or json")  # fmt: skip
    add("--out", type=Path, metavar="FILE", help="write here instead of printing")
    add("--cells", action="store_true",
        help="of two runs: paired tests after every experience, not only at the end")  # fmt: skip
    add("--sequential", action="store_true",
        help="of two runs: after how many pairs of episodes it is decided which is better, by a "
        "test that allows for looking after each")  # fmt: skip
    add("--rollouts", type=whole(1), metavar="N",
        help="of two runs: run both final policies now, on up to N episodes of each task; with "
        "--sequential only until it is decided")  # fmt: skip
    add("--alpha", type=float, metavar="RATE",
        help="error rate of --sequential; default: 0.05")  # fmt: skip
    return parser


def main(words: Sequence[str]) -> int:
    """Print the tables, or write them."""
    arguments = parser().parse(words)
    from clframe.report.compare import compare
    from clframe.report.files import write_atomically
    from clframe.report.sweeps import told_apart
    from clframe.report.tables import FORMATS, as_text

    _check(arguments)
    runs, _ = read_runs(arguments.runs)
    by = arguments.by or told_apart(arguments.runs, runs)
    tables = compare(runs, arguments.metric, by)
    more = _paired(runs, arguments)
    if arguments.out is not None:
        write_atomically(arguments.out, FORMATS[arguments.format](tables) + more)
        sys.stdout.write(f"{arguments.out}\n")
    elif arguments.format == "text" and sys.stdout.isatty():
        sys.stdout.write(as_text(tables, shutil.get_terminal_size().columns) + more)
    else:
        sys.stdout.write(FORMATS[arguments.format](tables) + more)
    return 0


def _asked(arguments: argparse.Namespace) -> list[str]:
    """The options that are about two runs."""
    names = ("cells", "sequential", "rollouts", "alpha")
    return [f"--{name}" for name in names if getattr(arguments, name) not in (None, False)]


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what does not go together, before anything is read."""
    asked = _asked(arguments)
    if arguments.alpha is not None:
        from clframe.utils.sequential import check_alpha

        if not arguments.sequential:
            raise SettingError("clframe compare: --alpha is the error rate of --sequential: add it")
        check_alpha(arguments.alpha, "--alpha")
    if arguments.cells and arguments.rollouts is not None:
        raise SettingError(
            "clframe compare: --rollouts runs the policies of the end, and --cells is about every "
            "row: leave one out"
        )
    if asked and arguments.format not in _WORDS:
        raise SettingError(
            f"clframe compare: {asked[0]} is written as text or markdown, not as "
            f"{arguments.format}: choose another --format"
        )


def _paired(runs: Sequence[Run], arguments: argparse.Namespace) -> str:
    """What there is to say of two runs episode by episode; empty where nothing is."""
    asked = _asked(arguments)
    if len(runs) != 2:
        if asked:
            raise SettingError(
                f"clframe compare: {asked[0]} compares two runs, but {len(runs)} are given"
            )
        return ""
    if arguments.format not in _WORDS:
        return ""
    from clframe.report import paired
    from clframe.utils.sequential import ALPHA

    alpha = ALPHA if arguments.alpha is None else arguments.alpha
    first, second = runs
    labels = _labels(first, second)
    markdown = arguments.format == "markdown"
    if arguments.rollouts is not None:
        return "\n" + _rolled_out(first, second, labels, arguments, alpha)
    pairs = paired.pairs_of(first.result, second.result, arguments.cells)
    if isinstance(pairs, str):
        if asked:
            raise SettingError(f"clframe compare: {asked[0]}: {pairs}")
        return f"\n{pairs}\n"
    text = "\n" + paired.table(pairs, labels, markdown)
    if arguments.sequential:
        last = [pair for pair in pairs if pair.row == pairs[-1].row]
        text += "\n" + paired.verdict(last, labels, alpha)
    return text


def _labels(first: Run, second: Run) -> tuple[str, str]:
    """What tells two runs apart: their strategies, else their folders."""
    if first.result.strategy != second.result.strategy:
        return first.result.strategy, second.result.strategy
    return str(first.folder), str(second.folder)


def _rolled_out(
    first: Run, second: Run, labels: tuple[str, str], arguments: argparse.Namespace, alpha: float
) -> str:
    """Run both final policies on the same episodes, and compare what came of them."""
    from clframe.api import load_learner
    from clframe.report import paired
    from clframe.robot.side_by_side import Policy, common_tasks, run_in_turns
    from clframe.utils.sequential import Decision, decide

    one, two = (Policy(load_learner(run.folder)[0], str(run.folder)) for run in (first, second))
    names = common_tasks(one, two)
    most = arguments.rollouts * len(names)
    end: Decision | None = None

    def pairs() -> list[paired.Pair]:
        return [paired.Pair("", name, one.outcomes(name), two.outcomes(name)) for name in names]

    def decided() -> bool:
        nonlocal end
        end = decide(*paired.in_turns(pairs()), most=most, alpha=alpha)
        return end is not None

    run_in_turns(one, two, arguments.rollouts, decided if arguments.sequential else None)
    found = pairs()
    markdown = arguments.format == "markdown"
    if end is None:
        return paired.table(found, labels, markdown)
    run = 2 * sum(map(len, found))
    text = paired.describe(end, labels, most, len(names), alpha)
    return f"{text}{run} rollouts were run, in rounds of a few of each task.\n"
