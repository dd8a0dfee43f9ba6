"""Two runs episode by episode: outcomes on the same start states, and their significance.

Exact McNemar tests of successes, sign flips of finer measures (``progress``, ``q``), and the
sequential test, which says after how many pairs the comparison would have been decided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from clframe.core.results import Result
from clframe.evaluation.episodes import CellOutcomes, outcomes_of
from clframe.evaluation.intervals import CONFIDENCE
from clframe.report.tables import align, plain
from clframe.utils.paired_tests import mcnemar, sign_flips
from clframe.utils.sequential_tests import HOPELESS, Decision, decide
from clframe.utils.statistics import wilson

_DATA_SETS = (
    "not paired: predictions for single samples are not kept, so runs on data sets are compared "
    "over seeds (Welch's t-test above)."
)


@dataclass(frozen=True)
class Pair:
    """The same episodes of a task by two policies.

    Args:
        row: The last learned experience.
        task: The task.
        first: Outcomes of the first policy's episodes.
        second: Outcomes of the second's, the same number.
    """

    row: str
    task: str
    first: CellOutcomes
    second: CellOutcomes

    def __len__(self) -> int:
        return min(len(self.first.success), len(self.second.success))

    @property
    def successes(self) -> tuple[Sequence[bool], Sequence[bool]]:
        """The successes in the episodes of both."""
        return self.first.success[: len(self)], self.second.success[: len(self)]

    @property
    def stopped(self) -> bool:
        """Whether a cell stopped early because of its outcomes."""
        return bool(self.first.stopped or self.second.stopped)

    def differences(self, measure: str) -> list[float]:
        """Return first minus second, by episode; empty if one has not measured it."""
        one, two = self.first.measures.get(measure, ()), self.second.measures.get(measure, ())
        return [a - b for a, b in zip(one, two, strict=False)][: len(self)]


def pairs_of(first: Result, second: Result, every_row: bool = False) -> list[Pair] | str:
    """Return the pairs of two runs, or a sentence on why there are none.

    Args:
        first: A run.
        second: Another run.
        every_row: Use every row that both have, by name; otherwise the final rows.
    """
    first_outcomes, second_outcomes = outcomes_of(first), outcomes_of(second)
    for outcomes, result in ((first_outcomes, first), (second_outcomes, second)):
        if outcomes:
            continue
        if result.matrix.measure == "accuracy":
            return _DATA_SETS
        return (
            f"not paired: '{result.run_dir or result.strategy}' has kept no episodes; "
            "clframe compare A B --rollouts N runs them now."
        )
    common = [task for task in first.matrix.columns if task in second.matrix.columns]
    if not common:
        return "not paired: the runs have no task in common."
    rows = _rows(first, second, every_row)
    pairs = []
    for name, i, k in rows:
        for task in common:
            a = first_outcomes.get((i, first.matrix.columns.index(task)))
            b = second_outcomes.get((k, second.matrix.columns.index(task)))
            if a is None or b is None:
                continue
            if a.identity != b.identity:
                return (
                    f"not paired: the episodes of task '{task}' are not the same in both runs "
                    "(another environment, start states or horizon)."
                )
            pairs.append(Pair(name, task, a, b))
    return pairs or "not paired: no row and task was measured in both runs."


def _rows(first: Result, second: Result, every_row: bool) -> list[tuple[str, int, int]]:
    names, others = first.matrix.rows, second.matrix.rows
    if not every_row:
        return [(names[-1], len(names) - 1, len(others) - 1)]
    return [(name, names.index(name), others.index(name)) for name in names if name in others]


def in_turns(pairs: Sequence[Pair]) -> tuple[list[bool], list[bool]]:
    """Return the successes of both in the order of the sequential test, with the tasks in turn.

    Tasks with fewer episodes drop out at their end.
    """
    first: list[bool] = []
    second: list[bool] = []
    for number in range(max(map(len, pairs), default=0)):
        for pair in pairs:
            if number < len(pair):
                wins, two = pair.successes
                first.append(wins[number])
                second.append(two[number])
    return first, second


def table(pairs: Sequence[Pair], labels: tuple[str, str], markdown: bool = False) -> str:
    """Return the pairs as a table with explanations; the last line joins all pairs of a row.

    Args:
        pairs: The pairs to compare.
        labels: Names of the two.
        markdown: Write Markdown for a page, else text for a terminal.
    """
    rows = list(dict.fromkeys(pair.row for pair in pairs))
    measures = [
        name for name in dict.fromkeys(name for pair in pairs for name in pair.first.measures)
        if any(pair.differences(name) for pair in pairs)
    ]  # fmt: skip
    head = ["task", "episodes", "A", "B", "only A", "only B", "p"]
    if len(rows) > 1:
        head.insert(0, "after")
    head += [title_of_column for name in measures for title_of_column in (f"{name} A-B", "p ")]
    lines = []
    for row in rows:
        cells = [pair for pair in pairs if pair.row == row]
        groups = [(pair.task, [pair]) for pair in cells]
        if len(cells) > 1:
            groups.append(("all", cells))
        for name, group in groups:
            lines.append(([row] if len(rows) > 1 else []) + [name, *_numbers(group, measures)])
    notes = _notes(pairs, measures)
    title = f"paired on the same episodes: A = {labels[0]}, B = {labels[1]}"
    if len(rows) == 1:
        title += f"; after {rows[0]}" if rows[0] else ""
    if markdown:
        text = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
        text += ["| " + " | ".join(plain(cell) for cell in line) + " |" for line in lines]
        return "\n".join([f"### {plain(title)}", "", *text, "", " ".join(notes)]) + "\n"
    columns = [list(column) for column in zip(head, *lines, strict=True)]
    return "\n".join([title, *align(columns), *notes]) + "\n"


def _numbers(group: Sequence[Pair], measures: Sequence[str]) -> list[str]:
    first, second = in_turns(group)
    only = [sum(a and not b for a, b in zip(*pair, strict=True)) for pair in
            ((first, second), (second, first))]  # fmt: skip
    stopped = any(pair.stopped for pair in group)
    texts = [str(len(first)), _share(first), _share(second), str(only[0]), str(only[1])]
    texts.append("-" if stopped else _p(mcnemar(*only)))
    for name in measures:
        differences = [x for pair in group for x in pair.differences(name) if math.isfinite(x)]
        texts.append(f"{math.fsum(differences) / len(differences):+.3f}" if differences else "-")
        texts.append("-" if stopped or not differences else _p(sign_flips(differences)))
    return texts


def _share(successes: Sequence[bool]) -> str:
    share = sum(successes) / len(successes)
    low, high = wilson(share, len(successes), CONFIDENCE)
    return f"{share:.3f} [{low:.2f}, {high:.2f}]"


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 1e-4 else f"{value:.0e}"


def _notes(pairs: Sequence[Pair], measures: Sequence[str]) -> list[str]:
    notes = [
        "[ ]: Wilson's 95 % interval. p: exact McNemar test, two-tailed, of each line by itself,",
        "not adjusted for their number.",
    ]
    if measures:
        names = " and ".join(measures)
        notes.append(f"p of {names}: flips of the signs of A-B, two-tailed.")
    if any(pair.stopped for pair in pairs):
        notes.append(
            "-: a cell was stopped early, which a test of fixed size does not allow; "
            "use --sequential."
        )
    return notes


def verdict(
    pairs: Sequence[Pair],
    labels: tuple[str, str],
    alpha: float,
    most: int | None = None,
) -> str:
    """Return the result of the sequential test for existing pairs, with its error rate.

    Args:
        pairs: The pairs of one row.
        labels: Names of the two.
        alpha: The error rate.
        most: Maximum number of pairs, if that is more than the existing ones.
    """
    end = decide(*in_turns(pairs), most=most, alpha=alpha)
    assert end is not None
    return describe(end, labels, most or sum(map(len, pairs)), len(pairs), alpha)


def describe(end: Decision, labels: tuple[str, str], most: int, tasks: int, alpha: float) -> str:
    """Describe how a sequential comparison ended."""
    counts = f"only A succeeds in {end.first_only} episodes, only B in {end.second_only}"
    used = f"{end.pairs} of {most} pairs ({2 * end.pairs} of {2 * most} rollouts)"
    if end.decided:
        head = f"sequential: {labels[end.winner - 1]} succeeds more often, decided after {used}"
    elif end.hopeless:
        head = (
            f"sequential: not told apart; given up after {used}, because the chance that the rest "
            f"decides it is below {HOPELESS:.0%}"
        )
    else:
        head = f"sequential: not told apart by {used}"
    turns = ", the tasks in turn" if tasks > 1 else ""
    return (
        f"{head}: {counts}{turns}; "
        f"e = {end.e_value:.3g}, where 1 / alpha = {1 / alpha:g} decides.\n"
        f"If both were equally good on every task, a difference would be reported in at most "
        f"{alpha:.3g} of such comparisons, however often one looks (Ville's inequality).\n"
    )
