"""What evaluation costs: its share of a run, and a row of the matrix in one pass or task by task.

    python benchmarks/evaluation.py [--tasks 5 20 50] [--repeats 5] [--json FILE] [--markdown FILE]

Permuted MNIST (the embedded images: 5,000 to learn and 1,000 to test in each task), 784-400-400-10,
batch 128, one epoch. A row is measured with the same learner in both ways, in turn, as CPU seconds
of one thread; ratios are of the two times of one turn. With 1,000 images in each task the model's
own work is nearly all of it; with few (``--images``) what is spared shows. PackNet's learner has
learned half of the tasks, so each of those has weights of its own and the others share theirs. The
share of evaluation is taken from whole runs, with all tasks measured after every experience and
with ``evaluation.evaluate_every`` at a fifth of the experiences.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import clframe
from clframe.core import hooks
from clframe.core.learner import Learner
from clframe.core.stream import Task
from clframe.run import set_up
from clframe.testing import prepare, run_built

METHODS: dict[str, tuple[Any, str]] = {
    "naive": ("naive", "domain"),
    "multi-head": ("naive", "task"),
    "packnet": ({"packnet": {"prune": 0.9, "post_steps": 2}}, "task"),
}


def fewer(task: Task, images: int) -> Task:
    """Return the same task, measured on ``n`` images."""
    return dataclasses.replace(task, load=lambda: task.data.subset(torch.arange(images)))


def learner_of(method: str, tasks: int) -> Learner:
    """A learner that has learned the first half of the tasks, a few steps each."""
    strategy, scenario = METHODS[method]
    stream = clframe.stream("permuted_mnist", n_experiences=tasks, scenario=scenario)  # type: ignore[arg-type]
    trainer = {"max_steps": 4, "batch_size": 128}
    learner = prepare(stream, strategy, "mlp", trainer=trainer).learner
    set_up(learner, stream, None)
    for experience in stream.experiences[: (tasks + 1) // 2]:
        learn_one(learner, experience)
    learner.eval()
    return learner


def learn_one(learner: Learner, experience: Any) -> None:
    """Learn an experience as a run does, without the evaluation."""
    hook = learner.plugins.hook
    learner.begin(experience)
    hook.before_experience(learner=learner, experience=experience)
    data = hooks.training_data(learner, experience, experience.data)
    hooks.fit_experience(learner, experience, data, learner.engine.settings.budget)
    learner.seen.append(experience)
    hook.after_experience(learner=learner, experience=experience, data=experience.data)


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of some work, and what it gave."""
    started = time.process_time()
    with torch.inference_mode():
        found = work()
    return time.process_time() - started, found


def rows(learner: Learner, images: int, repeats: int) -> dict[str, Any]:
    """The time of a row in few passes and task by task."""
    every = [fewer(task, images) for task in learner.stream.tasks]

    def together() -> Any:
        return hooks.evaluate_tasks(learner, every)

    def single() -> Any:
        return {task.name: hooks.evaluate_task(learner, task) for task in every}

    ways = {"together": together, "single": single}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(repeats + 1):
        found = {}
        for name in list(ways) if repeat % 2 else list(ways)[::-1]:
            spent, found[name] = seconds(ways[name])
            if repeat:  # the first turn fills caches
                times[name].append(spent)
        if found["together"] != found["single"]:
            raise SystemExit(f"{len(every)} tasks: both ways must measure the same")
    ratios = [b / a for a, b in zip(times["together"], times["single"], strict=True)]
    return {
        "together": statistics.median(times["together"]),
        "single": statistics.median(times["single"]),
        "faster": statistics.median(ratios),
        "spread": [min(ratios), max(ratios)],
    }


def share(tasks: int, every: int) -> float:
    """Evaluation's share of a naive run's seconds."""
    stream = clframe.stream("permuted_mnist", n_experiences=tasks)
    settings = {"max_epochs": 1, "batch_size": 128, "evaluate_every": every}
    timing = run_built(prepare(stream, "naive", "mlp", **settings)).timing
    spent: float = timing["eval_seconds"]
    return spent / (spent + float(timing["train_seconds"]))


def shares(tasks: int, repeats: int) -> dict[str, Any]:
    """The share with every row whole, and with five whole rows."""
    found: dict[str, list[float]] = {"every": [], "fifth": []}
    for repeat in range(repeats):
        for name in list(found) if repeat % 2 else list(found)[::-1]:
            found[name].append(share(tasks, 1 if name == "every" else max(tasks // 5, 1)))
    return {
        name: {"share": statistics.median(values), "spread": [min(values), max(values)]}
        for name, values in found.items()
    }


def table(report: dict[str, Any]) -> str:
    """The report as Markdown."""
    lines = [
        "| method | tasks | images of a task | row in few passes, ms | task by task, ms "
        "| times faster | lowest to highest |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in report["rows"]:
        low, high = row["spread"]
        lines.append(
            f"| {row['method']} | {row['tasks']} | {row['images']} | "
            f"{1000 * row['together']:.1f} | {1000 * row['single']:.1f} | {row['faster']:.2f} | "
            f"{low:.2f} to {high:.2f} |"
        )
    lines += [
        "",
        "| tasks | share of evaluation, every row whole | lowest to highest | five rows whole "
        "| lowest to highest |",
        "| --- | --- | --- | --- | --- |",
    ]
    for tasks, found in report["shares"].items():
        cells = [
            f"{100 * found[name]['share']:.0f} % | "
            + " to ".join(f"{100 * value:.0f}" for value in found[name]["spread"])
            for name in ("every", "fifth")
        ]
        lines.append(f"| {tasks} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, nargs="+", default=[5, 20, 50])
    parser.add_argument("--images", type=int, nargs="+", default=[1000, 20])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--repeats", type=int, default=5, help="turns of the two ways")
    parser.add_argument("--runs", type=int, default=1, help="whole runs for the shares")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    report: dict[str, Any] = {"rows": [], "shares": {}}
    for method in arguments.methods:
        for tasks in arguments.tasks:
            learner = learner_of(method, tasks)
            for images in arguments.images:
                row = rows(learner, images, arguments.repeats)
                report["rows"].append({"method": method, "tasks": tasks, "images": images, **row})
                print(f"{method}, {tasks} tasks of {images}: {row['faster']:.2f}", flush=True)
    for tasks in arguments.tasks:
        report["shares"][str(tasks)] = shares(tasks, arguments.runs)
        print(f"share with {tasks} tasks measured", flush=True)
    print(table(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(table(report) + "\n")


if __name__ == "__main__":
    main()
