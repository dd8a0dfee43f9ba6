"""Whether a step gets slower, or memory larger, as experiences go by.

    python benchmarks/growth.py [--experiences 2 50] [--scenario domain] [--json FILE]

For each strategy, one learner has learned few experiences of permuted MNIST and another many. Both
stay in memory and take turns: blocks of steps on their next experience, CPU time of one thread.
Reported is the median over turns of the ratio many / few, and what the plugins keep in bytes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

import clframe
from clframe.api import prepare_run
from clframe.learner import Learner
from clframe.loop import Budget, train
from clframe.run import set_up

STRATEGIES: dict[str, Any] = {
    "naive": "naive",
    "ewc": {"ewc": {"samples": 200}},
    "online_ewc": {"ewc": {"samples": 200, "online": True, "gamma": 0.9}},
    "si": "si",
    "mas": {"mas": {"samples": 200}},
    "lwf": "lwf",
    "replay": {"replay": {"size": 1000}},
    "dgr": "dgr",
    "dgr_distill": "dgr_distill",
    "rtf": "rtf",
}


def tensors(value: Any) -> list[torch.Tensor]:
    """All tensors in nested plain data."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors(item)]
    return []


def learned(strategy: Any, count: int, total: int, scenario: str) -> Learner:
    """A learner that has learned so many experiences, in the middle of the next one."""
    stream = clframe.stream("permuted_mnist", n_experiences=total, scenario=scenario)  # type: ignore[arg-type]
    prepared = prepare_run(
        stream,
        strategy,
        "mlp",
        trainer={"max_steps": 5, "batch_size": 128},
    )
    learner, hook = prepared.learner, prepared.learner.plugins.hook
    set_up(learner, stream, None)
    for experience in stream.experiences[: count + 1]:
        learner.begin(experience)
        hook.before_experience(learner=learner, experience=experience)
        train(learner, experience, experience.data, learner.engine.settings.budget)
        if experience.index < count:
            learner.seen.append(experience)
            data = experience.data
            hook.after_experience(learner=learner, experience=experience, data=data)
    return learner


def seconds(learner: Learner, steps: int) -> float:
    """CPU seconds of a block of steps."""
    experience = learner.experience
    assert experience is not None
    started = time.process_time()
    train(learner, experience, experience.data, Budget(epochs=None, steps=steps))
    return time.process_time() - started


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiences", type=int, nargs=2, default=[2, 50])
    parser.add_argument("--scenario", default="domain")
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES))
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    few, many = arguments.experiences
    report = {}
    print(f"permuted MNIST, {arguments.scenario}-incremental, 784-400-400, batch 128")
    print(f"| strategy | ms a step after {few} | after {many} | ratio | quartiles | state bytes |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in arguments.strategies:
        learners = [learned(STRATEGIES[name], n, many + 1, arguments.scenario) for n in (few, many)]
        for learner in learners:
            seconds(learner, arguments.steps)
        pairs = []
        for turn in range(arguments.turns):
            order = (0, 1) if turn % 2 == 0 else (1, 0)
            taken = {i: seconds(learners[i], arguments.steps) for i in order}
            pairs.append((taken[0], taken[1]))
        low, middle, high = statistics.quantiles([b / a for a, b in pairs], n=4)
        step = [1e3 * statistics.median(p[i] for p in pairs) / arguments.steps for i in (0, 1)]
        sizes = [
            sum(t.numel() * t.element_size() for t in tensors(x.plugins.state_dict()))
            for x in learners
        ]
        report[name] = {"ms": step, "ratio": middle, "quartiles": [low, high], "bytes": sizes}
        print(
            f"| {name} | {step[0]:.2f} | {step[1]:.2f} | {middle:.3f} | {low:.3f} to {high:.3f} | "
            f"{sizes[0]:,} to {sizes[1]:,} |",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
