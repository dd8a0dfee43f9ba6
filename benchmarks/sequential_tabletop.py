"""Naive against experience replay on three tabletop tasks: all rollouts, and until it is decided.

    python benchmarks/sequential_tabletop.py --markdown docs/results/sequential_tabletop.md

Both learn the three tasks of `experiment=tabletop_studies/small` (a perceptron that observes the
state, the floating hand), one seed. Their final policies are then compared twice on the same
episodes, of which the number is fixed beforehand: once on all, by the exact McNemar test, and once
as `clframe compare A B --rollouts N --sequential` does. What was learned stays in the output
folder; a second call compares only.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path

from studies import METHODS, SMALL

from clframe.api import load_learner
from clframe.cli import fit
from clframe.report.paired import Pair, describe, in_turns, table
from clframe.robot.paired_rollouts import Policy, common_tasks, run_in_turns
from clframe.utils.paired_tests import mcnemar
from clframe.utils.sequential_tests import ALPHA, Decision, decide

NAMES = ("er", "naive")


def learn(name: str, out: Path, seed: int) -> Path:
    """The folder of a run, which is made where it is not there."""
    folder = out / f"{name}-s{seed}"
    if not (folder / "results.json").exists():
        words = [*SMALL, *METHODS[name], f"seed={seed}", f"run_dir={folder}", "progress=false"]
        if code := fit.main(words):
            raise SystemExit(code)
    return folder


def compare(folders: list[Path], most: int, sequential: bool) -> tuple[list[Pair], Decision | None]:
    """Run both final policies on the same episodes of each task."""
    one, two = (Policy(load_learner(folder)[0], str(folder)) for folder in folders)
    names = common_tasks(one, two)
    end: Decision | None = None

    def pairs() -> list[Pair]:
        return [Pair("", name, one.outcomes(name), two.outcomes(name)) for name in names]

    def decided() -> bool:
        nonlocal end
        end = decide(*in_turns(pairs()), most=most * len(names))
        return end is not None

    run_in_turns(one, two, most, decided if sequential else None)
    return pairs(), end


def main() -> None:
    """Learn, compare twice, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/sequential_tabletop"))
    parser.add_argument("--episodes", type=int, default=50, help="of each task, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    folders = [learn(name, arguments.out, arguments.seed) for name in NAMES]
    began = time.perf_counter()
    every, _ = compare(folders, arguments.episodes, sequential=False)
    middle = time.perf_counter()
    some, end = compare(folders, arguments.episodes, sequential=True)
    seconds = (middle - began, time.perf_counter() - middle)
    text = page(every, some, end, seconds)
    print(text)
    if arguments.markdown is not None:
        arguments.markdown.write_text(text)


def page(
    every: list[Pair], some: list[Pair], end: Decision | None, seconds: tuple[float, float]
) -> str:
    """The results page."""
    assert end is not None
    first, second = in_turns(every)
    only = [
        sum(a and not b for a, b in zip(one, two, strict=True))
        for one, two in ((first, second), (second, first))
    ]
    p = mcnemar(only[0], only[1])
    fixed = 0 if p > ALPHA else 1 if only[0] > only[1] else 2
    run = 2 * sum(map(len, some))
    command = shlex.join(["python", "benchmarks/sequential_tabletop.py", *sys.argv[1:]])
    words = describe(end, (NAMES[0], NAMES[1]), len(first), len(every), ALPHA)
    same = "the same verdict" if fixed == end.winner else "ANOTHER VERDICT"
    return "\n".join(
        [
            "# Naive against replay on the tabletop: until it is decided",
            "",
            f"`{command}`",
            "",
            "Three tasks of `tabletop_goal` learned one after the other (state, floating hand, one",
            "seed), then both final policies on the same start states. What the tests are:",
            "[evaluation_intervals.md](../evaluation_intervals.md).",
            "",
            "| | rollouts | seconds, policies loaded included | verdict |",
            "| --- | --- | --- | --- |",
            f"| all, exact McNemar | {2 * len(first)} | {seconds[0]:.0f} | {_word(fixed)} |",
            f"| sequential, alpha {ALPHA:g} | {run} | {seconds[1]:.0f} | {_word(end.winner)} |",
            "",
            f"{run / (2 * len(first)):.1%} of the rollouts, {same}.",
            "",
            table(every, (NAMES[0], NAMES[1]), markdown=True),
            "What the sequential comparison said:",
            "",
            "> " + " ".join(words.split()),
            "",
        ]
    )


def _word(winner: int) -> str:
    return "not told apart" if winner == 0 else f"{NAMES[winner - 1]} succeeds more often"


if __name__ == "__main__":
    main()
