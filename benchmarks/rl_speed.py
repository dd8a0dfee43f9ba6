"""Decisions per second of soft actor-critic, with and without ``learner.overlap``.

    python benchmarks/rl_speed.py [--decisions 1000]

One task of ``point_robot`` and one of Meta-World (``faucet-close``), one update a decision with a
batch of 128, each way twice in turn. Besides wall time, the table has the CPU time of the learning
process: what a decision takes where another core is free for the environment.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch

from clframe import Plugin, hookimpl
from clframe.testing import prepare, run_built

STREAMS: dict[str, tuple[dict[str, Any], list[int]]] = {
    "point_robot": ({"name": "point_robot", "n_tasks": 1}, [64, 64]),
    "Meta-World": ({"name": "metaworld_cw10", "tasks": ["faucet-close"]}, [256, 256]),
}
START = 200


class Clock(Plugin):
    """Looks at the clocks after every update."""

    name = "clock"

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []

    @hookimpl
    def after_step(self) -> None:
        """Note both."""
        self.times.append((time.perf_counter(), time.process_time()))


def measure(stream: str, decisions: int, overlap: bool) -> tuple[float, float]:
    """Decisions per second, and milliseconds of the learning process for one."""
    settings, hidden = STREAMS[stream]
    clock = Clock()
    built = prepare(
        {**settings, "eval_episodes": 1},
        [clock],
        {"name": "actor", "hidden": hidden},
        learner={
            "name": "sac",
            "steps": START + decisions,
            "start_steps": START,
            "overlap": overlap,
        },
        batch_size=128,
    )
    run_built(built)
    # The first updates wait for worker processes to start.
    times = clock.times[min(50, decisions // 2) :]
    wall, own = (times[-1][k] - times[0][k] for k in (0, 1))
    return (len(times) - 1) / wall, 1000 * own / (len(times) - 1)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--decisions", type=int, default=1000)
    words = parser.parse_args()
    torch.set_num_threads(1)
    print("| stream | overlap | decisions/s | ms of the learning process for one |")
    print("| --- | --- | --- | --- |")
    for stream in STREAMS:
        for overlap in (False, True, False, True):
            speed, own = measure(stream, words.decisions, overlap)
            print(f"| {stream} | {str(overlap).lower()} | {speed:.0f} | {own:.1f} |", flush=True)


if __name__ == "__main__":
    main()
