"""What saving costs: time by the default frequency, and size against the size of the weights.

    python benchmarks/checkpoint_cost.py [--seconds 150] [--json FILE]

A model of about 1 or 20 million parameters trains with Adam, as `clframe fit` does it, for a number
of seconds (at least two saves by time). The share is the time spent in saving, all of it, over the
time of the run; a run is saved at its start and at its end in any case, which is counted as well.
Also measured: how long one save takes and how large it is.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from clframe.checkpoint import checkpointer
from clframe.checkpoint.checkpointer import Checkpointer, Stopped
from clframe.core.state import LoopProgress
from clframe.core.stream import Experience, Stream, Task
from clframe.data.dataset import TensorData, keep_inputs
from clframe.run import run
from clframe.testing import prepare

SIZES = {"1 M": [784, 256], "20 M": [4096, 4096]}


def make_stream() -> Stream:
    """One experience of random inputs that never ends."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2000, 784, generator=generator)
    y = torch.randint(0, 10, (2000,), generator=generator)
    data = TensorData(x, y, 0, transform=keep_inputs)
    few = TensorData(x[:100], y[:100], 0, transform=keep_inputs)
    task = Task(0, "task0", tuple(range(10)), lambda: few)
    return Stream(
        "random", "domain", [Experience(0, "exp0", (task,), lambda: data)], [task], (784,), 10
    )


def measure(hidden: list[int], seconds: float) -> dict[str, Any]:
    """Train for a number of seconds and measure the time of saving."""
    spent: list[float] = []
    write, step = Checkpointer._write, Checkpointer.after_step
    deadline = time.monotonic() + seconds

    def timed(self: Checkpointer, saved: dict[str, Any], parents: Sequence[Any]) -> int:
        started = time.perf_counter()
        number = write(self, saved, parents)
        spent.append(time.perf_counter() - started)
        return number

    def until(self: Checkpointer, progress: LoopProgress) -> None:
        if time.monotonic() > deadline:
            self.stop.signal = "time"
        step(self, progress)

    Checkpointer._write, Checkpointer.after_step = timed, until  # type: ignore[method-assign]
    checkpointer.notice = lambda sentence: None  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
        prepared = prepare(
            make_stream(),
            "naive",
            {"name": "mlp", "hidden": hidden},
            run_dir=Path(place) / "run",
            trainer={"max_epochs": 10**9, "batch_size": 128, "accelerator": "cpu"},
        )
        started = time.perf_counter()
        try:
            run(prepared.learner, prepared.stream, "naive", prepared.folder)
        except Stopped:
            total = time.perf_counter() - started
        assert prepared.folder is not None
        size = max(p.stat().st_size for p in prepared.folder.path.rglob("*.pt"))
        weights = sum(p.numel() * p.element_size() for p in prepared.learner.model.parameters())
    Checkpointer._write, Checkpointer.after_step = write, step  # type: ignore[method-assign]
    return {
        "parameters": weights // 4,
        "seconds": total,
        "saves": len(spent),
        "seconds_a_save": spent,
        "share": sum(spent) / total,
        "share_by_time": sum(spent[1:-1]) / total,
        "bytes": size,
        "times_the_weights": size / weights,
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    report = {}
    print("| parameters | saves | s a save (middle) | share of time | MB | times the weights |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, hidden in SIZES.items():
        found = report[name] = measure(hidden, arguments.seconds)
        middle = sorted(found["seconds_a_save"])[len(found["seconds_a_save"]) // 2]
        print(
            f"| {found['parameters'] / 1e6:.1f} M | {found['saves']} | {middle:.2f} | "
            f"{found['share']:.2%} ({found['share_by_time']:.2%} by time) | "
            f"{found['bytes'] / 1e6:.1f} | {found['times_the_weights']:.2f} |",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
