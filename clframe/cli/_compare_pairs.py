"""The options of ``clframe compare`` that compare two runs, episode by episode."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clframe.cli.parser import Parser, whole
from clframe.errors import SettingError

if TYPE_CHECKING:
    from clframe.runs.reader import Run

_TEXT_FORMATS = ("text", "markdown")
"""Formats of paired tests."""


def add_options(parser: Parser) -> None:
    """Add the options for two runs."""
    add = parser.add_argument
    add("--cells", action="store_true",
        help="of two runs: paired tests after every experience, not only at the end")  # fmt: skip
    add("--sequential", action="store_true",
        help="of two runs: the number of pairs of episodes after which the comparison is decided, "
        "by a test that allows a look after each pair")  # fmt: skip
    add("--rollouts", type=whole(1), metavar="N",
        help="of two runs: run both final policies now, on up to N episodes of each task; with "
        "--sequential only until it is decided")  # fmt: skip
    add("--alpha", type=float, metavar="RATE",
        help="error rate of --sequential; default: 0.05")  # fmt: skip


def _given_options(arguments: argparse.Namespace) -> list[str]:
    """Return the given options for two runs."""
    names = ("cells", "sequential", "rollouts", "alpha")
    return [f"--{name}" for name in names if getattr(arguments, name) not in (None, False)]


def check(arguments: argparse.Namespace) -> None:
    """Refuse conflicting options before reading anything."""
    options = _given_options(arguments)
    if arguments.alpha is not None:
        from clframe.utils.sequential_tests import check_alpha

        if not arguments.sequential:
            raise SettingError("clframe compare: --alpha is the error rate of --sequential: add it")
        check_alpha(arguments.alpha, "--alpha")
    if arguments.cells and arguments.rollouts is not None:
        raise SettingError(
            "clframe compare: --rollouts runs the final policies, but --cells compares every "
            "row: leave one out"
        )
    if options and arguments.format not in _TEXT_FORMATS:
        raise SettingError(
            f"clframe compare: {options[0]} is written as text or markdown, not as "
            f"{arguments.format}: choose another --format"
        )


def paired_tests(runs: Sequence[Run], arguments: argparse.Namespace) -> str:
    """Return the comparison of two runs episode by episode; empty if there is none."""
    options = _given_options(arguments)
    if len(runs) != 2:
        if options:
            raise SettingError(
                f"clframe compare: {options[0]} compares two runs, but {len(runs)} are given"
            )
        return ""
    if arguments.format not in _TEXT_FORMATS:
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
        if options:
            raise SettingError(f"clframe compare: {options[0]}: {pairs}")
        return f"\n{pairs if markdown else textwrap.fill(pairs, 79)}\n"
    text = "\n" + paired.table(pairs, labels, markdown)
    if arguments.sequential:
        last = [pair for pair in pairs if pair.row == pairs[-1].row]
        text += "\n" + paired.verdict(last, labels, alpha)
    return text


def _labels(first: Run, second: Run) -> tuple[str, str]:
    """Return what distinguishes two runs: their strategies, else their folders."""
    if first.result.strategy != second.result.strategy:
        return first.result.strategy, second.result.strategy
    return str(first.folder), str(second.folder)


def _rolled_out(
    first: Run, second: Run, labels: tuple[str, str], arguments: argparse.Namespace, alpha: float
) -> str:
    """Run both final policies on the same episodes, and compare the outcomes."""
    from clframe.api import load_learner
    from clframe.report import paired
    from clframe.robot.paired_rollouts import Policy, common_tasks, run_in_turns
    from clframe.utils.sequential_tests import Decision, decide

    first_policy, second_policy = (
        Policy(load_learner(run.folder)[0], str(run.folder)) for run in (first, second)
    )
    names = common_tasks(first_policy, second_policy)
    most = arguments.rollouts * len(names)
    end: Decision | None = None

    def pairs() -> list[paired.Pair]:
        return [
            paired.Pair("", name, first_policy.outcomes(name), second_policy.outcomes(name))
            for name in names
        ]

    def decided() -> bool:
        nonlocal end
        end = decide(*paired.in_turns(pairs()), most=most, alpha=alpha)
        return end is not None

    run_in_turns(
        first_policy, second_policy, arguments.rollouts, decided if arguments.sequential else None
    )
    finished_pairs = pairs()
    markdown = arguments.format == "markdown"
    if end is None:
        return paired.table(finished_pairs, labels, markdown)
    run = 2 * sum(map(len, finished_pairs))
    text = paired.describe(end, labels, most, len(names), alpha)
    return f"{text}{run} rollouts were run, in rounds of a few of each task.\n"
