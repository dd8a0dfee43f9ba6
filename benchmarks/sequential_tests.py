"""Sequential tests in simulation: false alarms, power and the rollouts that are saved.

    python benchmarks/sequential_tests.py --markdown docs/results/sequential_tests.md

Nothing is learned or rolled out: successes are drawn. Each comparison goes through the pairs as
``clframe compare A B --rollouts N --sequential`` does, a look after every pair and, after every
ten, the question whether it is hopeless; next to it is the exact McNemar test of all pairs. A
cell is one policy against a threshold (``stream.stop_threshold``).
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clframe.utils.paired_tests import mcnemar
from clframe.utils.sequential_tests import (
    ALPHA,
    HOPELESS,
    LOOK,
    chance_to_decide,
    log_e_pairs,
    log_e_rate,
)

Bools = NDArray[np.bool_]
TASKS = (0.2, 0.5, 0.9)
"""Success rates of three tasks that are compared together, in turns."""


@dataclass(frozen=True)
class Case:
    """Two policies.

    Args:
        name: In the table.
        first: Success rate of the first, of each task in turn.
        second: Of the second.
        together: Share of episodes whose difficulty both meet alike, as they do on the same start
            states; in the others successes are independent.
    """

    name: str
    first: tuple[float, ...]
    second: tuple[float, ...]
    together: float = 0.0

    @property
    def equal(self) -> bool:
        """Whether saying that they differ is a false alarm."""
        return self.first == self.second

    def draw(self, comparisons: int, pairs: int, seed: int) -> tuple[Bools, Bools]:
        """Successes of both, by comparison and pair."""
        generator = np.random.default_rng(seed)
        own = generator.random((2, comparisons, pairs))
        alike = generator.random((comparisons, pairs)) < self.together
        own[1][alike] = own[0][alike]
        rates = [np.resize(rate, pairs) for rate in (self.first, self.second)]
        return own[0] < rates[0], own[1] < rates[1]


CASES = (
    Case("0.1, 0.1", (0.1,), (0.1,)),
    Case("0.5, 0.5", (0.5,), (0.5,)),
    Case("0.9, 0.9", (0.9,), (0.9,)),
    Case("0.5, 0.5, half of the episodes alike", (0.5,), (0.5,), 0.5),
    Case("three tasks 0.2, 0.5, 0.9, both", TASKS, TASKS),
    Case("0.1, 0.9", (0.1,), (0.9,)),
    Case("0.3, 0.9", (0.3,), (0.9,)),
    Case("0.5, 0.9", (0.5,), (0.9,)),
    Case("0.5, 0.8", (0.5,), (0.8,)),
    Case("0.5, 0.7", (0.5,), (0.7,)),
    Case("0.5, 0.7, half of the episodes alike", (0.5,), (0.7,), 0.5),
    Case("0.5, 0.6", (0.5,), (0.6,)),
    Case("three tasks 0.2, 0.5, 0.9 and 0.5, 0.8, 0.9", TASKS, (0.5, 0.8, 0.9)),
)


@dataclass(frozen=True)
class Found:
    """What came of a case: shares told apart, and pairs used."""

    sequential: float
    fixed: float
    wrong: float
    median: float
    mean: float
    hopeless: float


def simulate(
    case: Case,
    comparisons: int,
    pairs: int,
    alpha: float = ALPHA,
    hopeless: float = HOPELESS,
    seed: int = 0,
) -> Found:
    """Many comparisons at once."""
    first, second = case.draw(comparisons, pairs, seed)
    wins, losses = np.cumsum(first & ~second, 1), np.cumsum(second & ~first, 1)
    reached = log_e_pairs(wins, losses) >= -math.log(alpha)
    never = pairs + 1
    decided_at = np.where(reached.any(1), reached.argmax(1) + 1, never)
    given_up_at = np.full(comparisons, never)
    for seen in range(LOOK, pairs, LOOK):
        open_ = np.flatnonzero((decided_at > seen) & (given_up_at == never))
        states = np.stack([wins[open_, seen - 1], losses[open_, seen - 1]], 1)
        distinct, place = np.unique(states, axis=0, return_inverse=True)
        chances = np.array(
            [
                chance_to_decide(a, b, seen - a - b, pairs - seen, alpha)
                for a, b in distinct.tolist()
            ]
        )
        futile = (chances == 0) | (chances < hopeless)
        given_up_at[open_[futile[place.reshape(-1)]]] = seen
    decided = decided_at < given_up_at
    used = np.minimum(np.minimum(decided_at, given_up_at), pairs)
    at = np.minimum(decided_at, pairs) - 1
    rows = np.arange(comparisons)
    ahead = wins[rows, at] > losses[rows, at]
    worse_first = sum(case.first) < sum(case.second)
    wrong = decided & (ahead if worse_first else True if case.equal else ~ahead)
    values, inverse = np.unique(
        np.stack([wins[:, -1], losses[:, -1]], 1), axis=0, return_inverse=True
    )
    p = np.array([mcnemar(a, b) for a, b in values.tolist()])[inverse.reshape(-1)]
    return Found(
        float(decided.mean()),
        float((p <= alpha).mean()),
        float(wrong.mean()),
        float(np.median(used)),
        float(used.mean()),
        float((given_up_at < never).mean()),
    )


@dataclass(frozen=True)
class CellFound:
    """What came of one cell: shares of answers, and episodes used."""

    above: float
    below: float
    mean: float


def simulate_cell(
    rate: float, threshold: float, cells: int, episodes: int, alpha: float = ALPHA, seed: int = 0
) -> CellFound:
    """Many cells at once: success against a threshold, until it is decided or cannot be."""
    successes = np.cumsum(np.random.default_rng(seed).random((cells, episodes)) < rate, 1)
    n = np.arange(1, episodes + 1)
    reached = log_e_rate(successes, n, threshold) >= -math.log(alpha)
    left = episodes - n
    best = np.maximum(
        log_e_rate(successes + left, np.full(episodes, episodes), threshold),
        log_e_rate(successes, np.full(episodes, episodes), threshold),
    )
    stopped = reached | (best < -math.log(alpha))
    stopped[:, -1] = True
    at = stopped.argmax(1)
    rows = np.arange(cells)
    decided, high = reached[rows, at], successes[rows, at] > threshold * (at + 1)
    return CellFound(
        float((decided & high).mean()), float((decided & ~high).mean()), float(at.mean() + 1)
    )


def main(words: list[str] | None = None) -> None:
    """Print the tables, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--comparisons", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args(words)
    text = page(arguments.comparisons, arguments.pairs)
    print(text)
    if arguments.markdown is not None:
        arguments.markdown.write_text(text + "\n")


def page(comparisons: int, pairs: int) -> str:
    """The results page."""
    command = shlex.join(["python", "benchmarks/sequential_tests.py", *sys.argv[1:]])
    rows = [(case, simulate(case, comparisons, pairs)) for case in CASES]
    alarms = max(found.sequential for case, found in rows if case.equal)
    lines = [
        "# Sequential tests in simulation",
        "",
        f"`{command}`",
        "",
        f"{comparisons:,} comparisons of each pair of success rates, at most {pairs} pairs of",
        f"rollouts, alpha {ALPHA:g}; given up when the chance of a decision is below {HOPELESS:g}.",
        f"*sequential*: `clframe compare A B --rollouts {pairs} --sequential`,"
        "a look after every pair.",
        f"*fixed*: exact McNemar test of all {pairs} pairs. What the tests are:",
        "[evaluation_intervals.md](../evaluation_intervals.md).",
        "",
        "| true rates | told apart, sequential | told apart, fixed | pairs used, median | mean | "
        "rollouts saved | given up |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case, found in rows:
        bold = "**" if case.equal else ""
        lines.append(
            f"| {case.name} | {bold}{found.sequential:.2%}{bold} | {found.fixed:.2%} | "
            f"{found.median:.0f} | {found.mean:.1f} | {1 - found.mean / pairs:.0%} | "
            f"{found.hopeless:.1%} |"
        )
    wrong = max(found.wrong for case, found in rows if not case.equal)
    lines += [
        "",
        f"False alarms (bold, equal policies) are at most {alarms:.2%}; stated are {ALPHA:.0%}.",
        f"Where the policies differ, the worse one was named in at most {wrong:.2%} of them.",
        "The price of looking after every pair is power where the difference is small for that",
        "many pairs: the adjacent columns say how much.",
        "",
        f"## One cell against a threshold (`stream.stop_threshold=0.7`, at most {pairs} episodes)",
        "",
        "| true rate | said above | said below | episodes used, mean | saved |",
        "| --- | --- | --- | --- | --- |",
    ]
    for rate in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        cell = simulate_cell(rate, 0.7, comparisons, pairs)
        lines.append(
            f"| {rate:g} | {cell.above:.2%} | {cell.below:.2%} | {cell.mean:.1f} | "
            f"{1 - cell.mean / pairs:.0%} |"
        )
    lines += ["", "At a true rate of 0.7 both answers are false; together they stay below 5 %."]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
