"""What clframe costs over a plain PyTorch loop: one process, one thread, cases interleaved.

    python benchmarks/overhead.py [--repeats 15] [--json FILE]

Each case trains the same model on the same batches of the same in-memory images: a hand-written
loop, the same loop on Lightning Fabric, and clframe's naive strategy with metrics and CSV logging.
Times are of training only (no evaluation, no set-up), as CPU seconds of this process; ratios are
medians over repeats of each case's time over the plain loop's in the same repeat.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.core.stream import Experience, Stream, Task
from clframe.data.dataset import TensorData, keep_inputs, scale_images
from clframe.data.sampler import epoch_order
from clframe.models.mlp import mlp
from clframe.run import set_up
from clframe.testing import prepare


def make_stream(features: int, outputs: int, samples: int, images: bool) -> Stream:
    """One experience of random inputs: bytes for the image-sized case, floats for the tiny one."""
    generator = torch.Generator().manual_seed(0)
    if images:
        x = torch.randint(0, 256, (samples, features), dtype=torch.uint8, generator=generator)
    else:
        x = torch.randn(samples, features, generator=generator)
    y = torch.randint(0, outputs, (samples,), generator=generator)
    data = TensorData(x, y, 0, transform=scale_images if images else keep_inputs)
    task = Task(0, "task0", tuple(range(outputs)), lambda: data)
    experience = Experience(0, "exp0", (task,), lambda: data)
    return Stream("random", "domain", [experience], [task], (features,), outputs)


Parts = tuple[nn.Module, torch.optim.Optimizer, Callable[[Tensor], None]]
"""The model and optimizer to train with, and what runs a loss's backward pass."""


def plain(model: nn.Module) -> Parts:
    """PyTorch and nothing else."""
    return model, torch.optim.Adam(model.parameters(), lr=1e-3), Tensor.backward


def fabric(model: nn.Module) -> Parts:
    """Fabric's wrappers, as its documentation shows them."""
    from lightning.fabric import Fabric

    one = Fabric(accelerator="cpu", devices=1)
    wrapped, optimizer = one.setup(model, torch.optim.Adam(model.parameters(), lr=1e-3))
    return wrapped, optimizer, one.backward


def hand_written(
    prepare: Callable[[nn.Module], Parts],
    stream: Stream,
    hidden: list[int],
    batch: int,
    epochs: int,
) -> Callable[[], float]:
    """A hand-written loop that gathers and scales the same batches."""
    data = stream.experiences[0].data
    x, y = data.gather(torch.arange(len(data))), data.labels
    images = x.dtype == torch.uint8

    def run() -> float:
        torch.manual_seed(0)
        model, optimizer, backward = prepare(mlp(stream.input_shape, stream.n_outputs, hidden))
        started = time.process_time()
        for epoch in range(epochs):
            for chosen in epoch_order(len(y), 0, 0, epoch).split(batch):
                inputs = x[chosen]
                if images:
                    inputs = inputs.float() / 255.0
                optimizer.zero_grad()
                backward(functional.cross_entropy(model(inputs), y[chosen]))
                optimizer.step()
        return time.process_time() - started

    return run


def clframe_loop(stream: Stream, hidden: list[int], batch: int, epochs: int) -> Callable[[], float]:
    """The naive strategy of clframe with metrics, events and CSV logging on."""

    def run() -> float:
        with tempfile.TemporaryDirectory() as folder:
            prepared = prepare(
                stream,
                "naive",
                {"name": "mlp", "hidden": hidden},
                logger="csv",
                run_dir=Path(folder) / "run",
                trainer={"max_epochs": epochs, "batch_size": batch, "accelerator": "cpu"},
            )
            learner = prepared.learner
            assert prepared.folder is not None
            with prepared.folder.entered():
                set_up(learner, stream, prepared.folder)
                experience = stream.experiences[0]
                learner.begin(experience)
                started = time.process_time()
                learner.engine.train(
                    learner, experience, experience.data, learner.engine.settings.budget
                )
                return time.process_time() - started

    return run


CASES: dict[str, Callable[[Stream, list[int], int, int], Callable[[], float]]] = {
    "plain": functools.partial(hand_written, plain),
    "fabric": functools.partial(hand_written, fabric),
    "clframe": clframe_loop,
}
SIZES = {
    "784-400-400-10, batch 128": (784, [400, 400], 128, 12800, True),
    "8-8-8-10, batch 2": (8, [8, 8], 2, 2000, False),
}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    report: dict[str, dict[str, Any]] = {}
    print(
        "| model | loop | us a step | ratio to plain | quartiles |\n| --- | --- | --- | --- | --- |"
    )
    for size, (features, hidden, batch, samples, images) in SIZES.items():
        stream = make_stream(features, 10, samples, images)
        runs = {n: make(stream, hidden, batch, arguments.epochs) for n, make in CASES.items()}
        for run in runs.values():
            run()
        times: dict[str, list[float]] = {name: [] for name in runs}
        for repeat in range(arguments.repeats):
            names = list(runs)
            for name in names[repeat % 3 :] + names[: repeat % 3]:
                times[name].append(runs[name]())
        steps = arguments.epochs * samples / batch
        report[size] = {}
        for name, values in times.items():
            ratios = [a / b for a, b in zip(values, times["plain"], strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            step = statistics.median(values) / steps * 1e6
            report[size][name] = {"us": step, "ratio": middle, "quartiles": [low, high]}
            print(f"| {size} | {name} | {step:.0f} | {middle:.3f} | {low:.3f} to {high:.3f} |")
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
