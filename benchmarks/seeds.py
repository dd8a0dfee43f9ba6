"""What five seeds cost as one batched model, against one seed and against five in a row.

    python benchmarks/seeds.py [--repeats 7] [--json FILE]

Whole runs without set-up (five experiences of embedded digits, a row of the matrix after each), one
thread, CPU time, the cases in turn. ``small`` is bound by Python, ``medium`` by arithmetic.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from clframe.build import build
from clframe.config.run_config import RunConfig
from clframe.sweep.seed_group import SeedGroup
from clframe.testing import run_built

SIZES: dict[str, tuple[list[int], int]] = {"small": ([16, 16], 8), "medium": ([100, 100], 128)}
STRATEGIES: dict[str, Any] = {
    "naive": "naive",
    "replay": {"replay": {"size": 200}},
    "si": "si",
    "lwf": "lwf",
}


def cases(strategy: Any, hidden: list[int], batch: int, seeds: int) -> dict[str, Callable[[], Any]]:
    """The three ways; each gives what it takes to start."""

    def configs(count: int) -> list[RunConfig]:
        return [
            RunConfig(
                {"name": "split_mnist", "n_experiences": 5},
                strategy,
                {"name": "mlp", "hidden": hidden},
                seed=seed,
                logger=None,
                run_dir=False,
                progress=False,
                trainer={"max_steps": 200, "batch_size": batch, "accelerator": "cpu"},
            )
            for seed in range(count)
        ]

    def in_a_row(count: int) -> float:
        runs = [build(config) for config in configs(count)]
        started = time.process_time()
        for one in runs:
            run_built(one)
        return time.process_time() - started

    def batched(count: int) -> float:
        group = SeedGroup(configs(count))
        started = time.process_time()
        group.run()
        return time.process_time() - started

    return {
        "one": lambda: in_a_row(1),
        "in a row": lambda: in_a_row(seeds),
        "batched": lambda: batched(seeds),
    }


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    report: dict[str, Any] = {}
    print(
        f"| model | strategy | one seed, s | {arguments.seeds} batched, times one | quartiles |",
        end="",
    )
    print(" in a row, times one |\n| --- | --- | --- | --- | --- | --- |")
    for size, (hidden, batch) in SIZES.items():
        for name, strategy in STRATEGIES.items():
            ways = cases(strategy, hidden, batch, arguments.seeds)
            for measure in ways.values():
                measure()
            times: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(arguments.repeats):
                for way, measure in ways.items():
                    times[way].append(measure())
            ratios = {
                way: [a / b for a, b in zip(values, times["one"], strict=True)]
                for way, values in times.items()
            }
            low, middle, high = statistics.quantiles(ratios["batched"], n=4)
            one, row = statistics.median(times["one"]), statistics.median(ratios["in a row"])
            report[f"{size} {name}"] = {"one": one, "batched": middle, "in_a_row": row}
            label = f"784-{'-'.join(map(str, hidden))}-10, batch {batch}"
            spread = f"{low:.2f} to {high:.2f}"
            print(
                f"| {label} | {name} | {one:.2f} | {middle:.2f} | {spread} | {row:.2f} |",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
