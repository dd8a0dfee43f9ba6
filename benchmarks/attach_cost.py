"""Compare the cost of a method attached to a plain loop with the same method in clframe's own.

    python benchmarks/attach_cost.py [--repeats 5] [--write docs/results/attach_cost.md]

Both train the same model on the same batches in the same order, with the same plugin class; what is
timed is the training of the second experience, where the method acts (CPU seconds of this process,
one thread, both ways in turn). The ratio is the median over repeats of one over the other. That
both end with the same weights, bit for bit, is checked on the way.
"""

from __future__ import annotations

import argparse
import copy
import gc
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import clframe
from clframe.core.registry import discover
from clframe.core.stream import Experience, Scenario, Stream, Task
from clframe.data.dataset import TensorData, keep_inputs
from clframe.run import set_up
from clframe.strategies import compose
from clframe.testing import prepare

METHODS = ("ewc", "online_ewc", "si", "mas", "packnet", "lwf", "replay", "agem", "der")
SIZES: dict[str, dict[str, Any]] = {
    "784-400-400-10, batches of 128": {
        "features": 784,
        "hidden": [400, 400],
        "batch": 128,
        "steps": 20,
    },
    "16-64-10, batches of 16": {"features": 16, "hidden": [64], "batch": 16, "steps": 100},
}
OUTPUTS = 10
Weights = dict[str, Tensor]


def make_stream(scenario: Scenario, features: int, batch: int, steps: int) -> Stream:
    """Two experiences of random inputs, the first of one batch."""
    generator = torch.Generator().manual_seed(0)
    experiences, tasks = [], []
    for index, samples in enumerate((batch, steps * batch)):
        units = range(5 * index, 5 * index + 5) if scenario == "task" else range(OUTPUTS)
        x = torch.randn(samples, features, generator=generator)
        y = torch.randint(units.start, units.stop, (samples,), generator=generator)
        data = TensorData(x, y, index, transform=keep_inputs)
        tasks.append(Task(index, f"task{index}", tuple(units), lambda data=data: data))  # type: ignore[misc]
        experiences.append(
            Experience(index, f"exp{index}", (tasks[-1],), lambda data=data: data)  # type: ignore[misc]
        )
    return Stream("random", scenario, experiences, tasks, (features,), OUTPUTS)


def built_for(strategy: str, stream: Stream, size: dict[str, Any]) -> Any:
    """A run, ready to start."""
    return prepare(
        stream,
        strategy,
        {"name": "mlp", "hidden": size["hidden"]},
        optimizer={"name": "adam", "lr": 0.001},
        trainer={"max_epochs": 1, "batch_size": size["batch"]},
    )


def by_clframe(strategy: str, stream: Stream, size: dict[str, Any]) -> tuple[float, Weights]:
    """Seconds of the second experience's training in clframe's loop."""
    learner = built_for(strategy, stream, size).learner
    set_up(learner, stream, None)
    hook, seconds = learner.plugins.hook, 0.0
    for experience in stream:
        learner.begin(experience)
        hook.before_experience(learner=learner, experience=experience)
        started = time.process_time()
        learner.engine.train(learner, experience, experience.data, learner.engine.settings.budget)
        seconds = time.process_time() - started
        weights = copy.deepcopy(learner.model.state_dict())
        learner.seen.append(experience)
        hook.after_experience(learner=learner, experience=experience, data=experience.data)
    return seconds, weights


def attached(strategy: str, stream: Stream, size: dict[str, Any]) -> tuple[float, Weights]:
    """Seconds of the second experience's training in a plain loop."""
    model = built_for(strategy, stream, size).learner.model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=True)
    seconds = 0.0
    with clframe.attach(
        model,
        optimizer,
        compose(strategy, discover())[1],
        scenario=stream.scenario,
        tasks=[task.outputs for task in stream.tasks] if stream.scenario == "task" else 20,
        batch_size=size["batch"],
        max_epochs=1,
    ) as cl:
        for experience in stream:
            last = experience is stream.experiences[-1]
            with cl.experience(experience.name, experience.data, last=last):
                started = time.process_time()
                for x, y in cl.batches():
                    optimizer.zero_grad()
                    loss = functional.cross_entropy(model(x), y)
                    loss.backward()
                    optimizer.step()
                seconds = time.process_time() - started
                weights = copy.deepcopy(model.state_dict())
    return seconds, weights


def measure(strategy: str, size: dict[str, Any], repeats: int) -> tuple[float, float, float]:
    """Milliseconds of a step in clframe's loop and attached, and the ratio."""
    scenario: Scenario = "task" if strategy == "packnet" else "domain"
    stream = make_stream(scenario, size["features"], size["batch"], size["steps"])
    pairs = []
    for number in range(repeats + 1):
        ways = [by_clframe, attached]
        gc.collect()
        results = {way: way(strategy, stream, size) for way in (ways if number % 2 else ways[::-1])}
        (own, one), (host, other) = results[by_clframe], results[attached]
        if not all(torch.equal(one[name], other[name]) for name in one):
            raise SystemExit(f"{strategy}: the weights differ")
        if number:  # the first one warms up
            pairs.append((own, host))
    own, host = (
        1000 * statistics.median(column) / size["steps"] for column in zip(*pairs, strict=True)
    )
    return own, host, statistics.median(host / own for own, host in pairs)


def page(rows: dict[str, list[tuple[str, float, float, float]]], command: str) -> str:
    """The table as Markdown."""
    lines = [
        "# What attaching costs",
        "",
        f"`{command}`",
        "",
        "CPU time of a training step in the second experience, in milliseconds: the method in",
        "clframe's own loop, and attached to a plain loop by `clframe.attach`. The ratio is the",
        "median over repeats that take turns; both ways end with the same weights, bit for bit.",
        "What methods do between experiences is the same code and left out.",
    ]
    for name, table in rows.items():
        lines += ["", f"## {name}", ""]
        lines += ["| Method | own loop | attached | ratio |", "| --- | ---: | ---: | ---: |"]
        lines += [
            f"| {m} | {own:.3f} | {host:.3f} | {ratio:.2f} |" for m, own, host, ratio in table
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", type=Path, help="a Markdown file for the tables")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, list[tuple[str, float, float, float]]] = {}
    for name, size in SIZES.items():
        for method in METHODS:
            own, host, ratio = measure(method, size, chosen.repeats)
            rows.setdefault(name, []).append((method, own, host, ratio))
            print(f"{name}  {method:12} {own:7.3f} {host:7.3f}  {ratio:.2f}", flush=True)
    if chosen.write:
        command = f"python benchmarks/attach_cost.py --repeats {chosen.repeats}"
        chosen.write.write_text(page(rows, command))


if __name__ == "__main__":
    main()
