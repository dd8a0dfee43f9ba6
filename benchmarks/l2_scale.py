"""How long the L2 metrics take as a lifetime grows: python benchmarks/l2_scale.py [LX ...].

Writes lifetimes of 12 learning blocks and three tasks (evaluated after every block), in the on-disk
format, and experts that are as long in sum, then times reading and evaluating: the lifetime alone,
and with the experts under both profiles (best of three). The time per row should stay the same.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from clframe.metrics import l2

BLOCKS, TASKS, EVALUATIONS = 12, 3, 10
HEADER = "block_num\texp_num\tworker_id\tblock_type\tblock_subtype\ttask_name\ttask_params\t" + (
    "exp_status\ttimestamp\treward\n"
)


def write_lifetime(folder: Path, experiences: int, tasks: list[int], seed: int) -> Path:
    """Write a lifetime that learns the given tasks in turn, one block each."""
    generator = np.random.default_rng(seed)
    number = block = 0
    seen = [0] * TASKS

    def write(kind: str, rows: list[tuple[int, float]]) -> None:
        nonlocal number, block
        place = folder / "worker-0" / f"{block}-{kind}"
        place.mkdir(parents=True)
        lines = [HEADER]
        for task, reward in rows:
            lines.append(
                f"{block}\t{number}\tworker-0\t{kind}\twake\ttask{task}_1\t{{}}\tcomplete\t"
                f"20260101T000000.000000\t{reward:.6f}\n"
            )
            number += 1
        (place / "data-log.tsv").write_text("".join(lines))
        block += 1

    def evaluation() -> None:
        scores = [1 - 0.9 ** (seen[task] / 500) for task in range(TASKS)]
        noise = generator.normal(0, 0.02, (TASKS, EVALUATIONS))
        write("test", [(t, scores[t] + e) for t in range(TASKS) for e in noise[t]])

    folder.mkdir(parents=True)
    (folder / "logger_info.json").write_text(
        '{"metrics_columns": ["reward"], "log_format_version": "1.1"}'
    )
    length = experiences // len(tasks)
    evaluation()
    for task in tasks:
        steps = seen[task] + np.arange(length)
        rewards = 1 - 0.9 ** (steps / 500) + generator.normal(0, 0.1, length)
        seen[task] += length
        write("train", [(task, reward) for reward in rewards.tolist()])
        evaluation()
    return folder


def main(sizes: list[int]) -> None:
    """Print a table of times."""
    print(f"{'LX':>10} {'alone s':>10} {'with STEs s':>13} {'reference s':>12} {'us per row':>11}")
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            base = Path(name)
            order = [block % TASKS for block in range(BLOCKS)]
            lifetime = write_lifetime(base / "lifetime", size, order, 0)
            experts = [
                write_lifetime(base / f"expert{task}", size // TASKS, [task], task + 1)
                for task in range(TASKS)
            ]
            seconds = [
                best_of_three(partial(l2.evaluate, lifetime)),
                best_of_three(partial(l2.evaluate, lifetime, experts)),
                best_of_three(partial(l2.evaluate, lifetime, experts, "reference")),
            ]
        rows = 2 * size
        print(
            f"{size:>10} {seconds[0]:>10.3f} {seconds[1]:>13.3f} {seconds[2]:>12.3f} "
            f"{seconds[1] / rows * 1e6:>11.2f}"
        )


def best_of_three(work: Callable[[], object]) -> float:
    """Return the shortest of three durations in seconds."""
    durations = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        durations.append(time.perf_counter() - start)
    return min(durations)


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [30_000, 100_000, 300_000, 1_000_000])
