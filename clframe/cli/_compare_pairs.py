"""The part of ``clframe compare`` that is about two runs, episode by episode."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clframe.cli.parser import Parser, whole
from clframe.errors import SettingError

if TYPE_CHECKING:
    from clframe.runs.reader import Run

_WORDS = ("text", "markdown")
"""Formats that paired tests are written in."""


def add_options(parser: Parser) -> None:
    """Take the options that are about two runs."""
    add = parser.add_argument
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


def _asked(arguments: argparse.Namespace) -> list[str]:
    """The options that are about two runs."""
    names = ("cells", "sequential", "rollouts", "alpha")
    return [f"--{name}" for name in names if getattr(arguments, name) not in (None, False)]


def check(arguments: argparse.Namespace) -> None:
    """Refuse what does not go together, before anything is read."""
    asked = _asked(arguments)
    if arguments.alpha is not None:
        from clframe.utils.sequential_tests import check_alpha

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


def paired_tests(runs: Sequence[Run], arguments: argparse.Namespace) -> str:
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
    from clframe.utils.sequential_tests import ALPHA

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
        return f"\n{pairs if markdown else textwrap.fill(pairs, 79)}\n"
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
    from clframe.robot.paired_rollouts import Policy, common_tasks, run_in_turns
    from clframe.utils.sequential_tests import Decision, decide

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
