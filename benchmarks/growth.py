"""Whether a step gets slower, or memory larger, as experiences go by.

    python benchmarks/growth.py [--experiences 2 20 50 100] [--json FILE] [--markdown FILE]
    python benchmarks/growth.py --whole-runs 1000
    python benchmarks/growth.py --avalanche --environments DIR

For each strategy, learners have learned few to many experiences of permuted MNIST. They stay in
memory and take turns: blocks of steps on their next experience, CPU time of one thread. Reported is
the median over turns of the ratio most / fewest, and what the plugins keep in bytes.

With ``--whole-runs N`` ten strategies learn N experiences with a run folder, checkpoints and
logs: see ``long_stream.py``.

With ``--avalanche`` the same is asked of Avalanche, in an environment of its own as in
``peers.py``: CPU time of a training iteration while one stream goes by.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import long_stream
import peers
import torch

import clframe
from clframe.core.learner import Learner
from clframe.core.trainer import Budget
from clframe.run import set_up
from clframe.testing import prepare

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
    "packnet": {"packnet": {"prune": 0.95, "post_steps": 2}},
    "xdg": "xdg",
}
SCENARIOS = {"packnet": "task", "xdg": "task"}
"""Where a method needs another scenario than domain-incremental."""


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
    """Return a learner after a number of experiences, in the middle of the next one."""
    stream = clframe.stream("permuted_mnist", n_experiences=total, scenario=scenario)  # type: ignore[arg-type]
    prepared = prepare(
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
        learner.engine.train(learner, experience, experience.data, learner.engine.settings.budget)
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
    learner.engine.train(learner, experience, experience.data, Budget(epochs=None, steps=steps))
    return time.process_time() - started


def measure(name: str, counts: list[int], turns: int, steps: int) -> dict[str, Any]:
    """Time learners after different numbers of experiences, in turns."""
    scenario = SCENARIOS.get(name, "domain")
    learners = [learned(STRATEGIES[name], n, counts[-1] + 1, scenario) for n in counts]
    for learner in learners:
        seconds(learner, steps)
    taken: list[list[float]] = []
    for turn in range(turns):
        order = list(range(len(learners)))
        times = {i: seconds(learners[i], steps) for i in (order if turn % 2 else order[::-1])}
        taken.append([1e3 * times[i] / steps for i in order])
    low, middle, high = statistics.quantiles([row[-1] / row[0] for row in taken], n=4)
    return {
        "ms": [statistics.median(row[i] for row in taken) for i in range(len(counts))],
        "ratio": middle,
        "quartiles": [low, high],
        "bytes": [
            sum(t.numel() * t.element_size() for t in tensors(x.plugins.state_dict()))
            for x in learners
        ],
    }


def of_avalanche(folder: Path, counts: list[int]) -> dict[str, Any]:
    """Return what Avalanche's methods take after different numbers of experiences."""
    python = peers.avalanche_python(folder.resolve())
    case = peers.CASES / "avalanche_growth.py"
    report = {}
    for name in ("naive", "ewc", "online_ewc", "si", "lwf", "replay"):
        command = [str(python), str(case), name, *map(str, counts)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"Avalanche's {name} failed:\n{done.stderr[-2000:]}")
        report[name] = json.loads(done.stdout.splitlines()[-1])
    return report


def table(report: dict[str, Any], counts: list[int]) -> str:
    """The report as Markdown."""
    after = " | ".join(f"ms after {n}" for n in counts)
    lines = [f"| strategy | {after} | ratio | quartiles | state bytes |"]
    lines.append("| --- |" + " --- |" * (len(counts) + 3))
    for name, row in report.items():
        ms = " | ".join(f"{value:.2f}" for value in row["ms"])
        quartiles = " to ".join(f"{q:.3f}" for q in row.get("quartiles", []))
        kept = f"{row['bytes'][0]:,} to {row['bytes'][-1]:,}" if "bytes" in row else ""
        lines.append(f"| {name} | {ms} | {row['ratio']:.3f} | {quartiles} | {kept} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiences", type=int, nargs="+", default=[2, 20, 50, 100])
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES))
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--whole-runs", type=int, metavar="EXPERIENCES")
    parser.add_argument("--avalanche", action="store_true")
    parser.add_argument("--environments", type=Path, default=Path("runs/peers"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    if arguments.whole_runs:
        found = long_stream.compare(list(long_stream.STRATEGIES), arguments.whole_runs)
        print(long_stream.table(found))
        return
    torch.set_num_threads(1)
    counts = arguments.experiences
    print("permuted MNIST, 784-400-400, batch 128, one thread")
    if arguments.avalanche:
        report = of_avalanche(arguments.environments, counts)
    else:
        report = {}
        for name in arguments.strategies:
            report[name] = measure(name, counts, arguments.turns, arguments.steps)
            print(f"{name}: ratio {report[name]['ratio']:.3f}", flush=True)
    print(table(report, counts))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(table(report, counts) + "\n")


if __name__ == "__main__":
    main()
