"""Whether an experience gets slower, or a run folder larger, over a stream of 1,000 experiences.

    python benchmarks/long_stream.py [--experiences 1000] [--strategies naive ewc]
        [--json FILE] [--markdown FILE]

Each strategy learns a stream of Gaussian blobs (16 samples an experience) in a process of its own,
with a run folder and the default settings, except that only the current task is evaluated. An
experience's cost is the CPU time from its start to the start of the next one: training, evaluation
of its own task, logging and checkpoints. Reported is the median of the last 50 divided by the
median of the first 50.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import clframe
from clframe import Capabilities, Plugin, hookimpl
from clframe.testing import toy_stream

STRATEGIES: dict[str, Any] = {
    "naive": [],
    "replay": [{"replay": {"size": 200}}],
    "ewc": [{"ewc": {"samples": 16, "weight": 1e-3}}],
    "online_ewc": [{"ewc": {"samples": 16, "weight": 1e-3, "online": True}}],
    "si": ["si"],
    "mas": [{"mas": {"samples": 16, "weight": 1e-3}}],
    "lwf": ["lwf"],
    "agem": ["agem"],
    "derpp": ["derpp"],
    "rwalk": ["rwalk"],
}
_EDGE = 50
"""Experiences at each end of the stream that are compared."""


class Clock(Plugin):
    """Notes the CPU time and the memory at the start of each experience."""

    capabilities = Capabilities(evaluator=True)

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.megabytes: list[float] = []

    @hookimpl(tryfirst=True)
    def before_experience(self) -> None:
        """An experience begins."""
        self.seconds.append(time.process_time())
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.megabytes.append(pages * resource.getpagesize() / 2**20)


def measure(name: str, experiences: int) -> dict[str, Any]:
    """Learn a stream with a strategy and report what its experiences cost."""
    torch.set_num_threads(1)
    clock = Clock()
    stream = toy_stream("domain", n_experiences=experiences, samples=8)
    with tempfile.TemporaryDirectory() as place, open(os.devnull, "w") as quiet:
        run = Path(place, "run")
        with contextlib.redirect_stderr(quiet):
            clframe.fit(
                stream,
                [*STRATEGIES[name], clock],
                {"name": "mlp", "hidden": [32]},
                optimizer={"name": "sgd", "lr": 0.01},
                trainer={"max_epochs": 1, "batch_size": 8},
                evaluation={"evaluate_every": experiences},
                run_dir=run,
            )
        files = [path for path in run.rglob("*") if path.is_file()]
        states = [path.stat().st_size for path in (run / "checkpoints").glob("*.pt")]
    edge = min(_EDGE, experiences // 3)
    pairs = zip(clock.seconds, clock.seconds[1:], strict=False)
    taken = [1e3 * (after - before) for before, after in pairs]
    first, last = statistics.median(taken[:edge]), statistics.median(taken[-edge:])
    return {
        "first_ms": first,
        "last_ms": last,
        "ratio": last / first,
        "megabytes": [clock.megabytes[edge], clock.megabytes[-1]],
        "checkpoint_bytes": max(states),
        "files": len(files),
    }


def compare(strategies: Sequence[str], experiences: int) -> dict[str, Any]:
    """Measure each strategy in a process of its own."""
    report = {}
    for name in strategies:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            report[name] = pool.apply(measure, (name, experiences))
        print(f"{name}: ratio {report[name]['ratio']:.2f}", flush=True)
    return report


def table(report: dict[str, Any]) -> str:
    """The report as Markdown."""
    lines = [
        f"| strategy | CPU ms, first {_EDGE} | last {_EDGE} | ratio | memory MB | checkpoint kB "
        "| files |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in report.items():
        memory = " to ".join(f"{value:.0f}" for value in row["megabytes"])
        lines.append(
            f"| {name} | {row['first_ms']:.1f} | {row['last_ms']:.1f} | {row['ratio']:.2f} "
            f"| {memory} | {row['checkpoint_bytes'] / 1e3:.0f} | {row['files']} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiences", type=int, default=1000)
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    report = compare(arguments.strategies, arguments.experiences)
    print(table(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(table(report) + "\n")


if __name__ == "__main__":
    main()
