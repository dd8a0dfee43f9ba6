"""Small run folders, written as every run writes them."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MakeRun = Callable[..., Path]


def results(
    *,
    stream: str = "split_mnist",
    strategy: str = "naive",
    scenario: str = "class",
    seed: int = 0,
    tasks: int = 3,
    keep: float = 0.5,
) -> dict[str, Any]:
    """A results.json whose matrix keeps a share `keep` of each task per later experience."""
    noise = random.Random(f"{strategy}{seed}")
    values = [[round(0.1 + 0.02 * noise.random(), 4) for _ in range(tasks)]]
    for i in range(tasks):
        row = []
        for j in range(tasks):
            level = (0.95 + 0.04 * noise.random()) * keep ** max(0, i - j) if j <= i else 0.1
            row.append(round(level, 4))
        values.append(row)
    matrix = values[1:]
    seen = [matrix[i][j] for i in range(tasks) for j in range(i + 1)]
    old = [matrix[i][j] for i in range(tasks) for j in range(i)]
    new = [matrix[i][j] for i in range(tasks) for j in range(i + 1, tasks)]
    everything = [x for row in matrix for x in row]
    return {
        "schema": 1,
        "stream": stream,
        "strategy": strategy,
        "scenario": scenario,
        "seed": seed,
        "matrix": {
            "rows": ["before", *(f"exp{i}" for i in range(tasks))],
            "columns": [f"task{j}" for j in range(tasks)],
            "values": values,
            "measure": "accuracy",
        },
        "curves": {},
        "metrics": {
            "openloris": {
                "accuracy": sum(seen) / len(seen),
                "bwt": sum(old) / len(old),
                "fwt": sum(new) / len(new),
                "overall": sum(everything) / len(everything),
            },
            "gem": {
                "acc": sum(matrix[-1]) / tasks,
                "bwt": sum(matrix[-1][j] - matrix[j][j] for j in range(tasks - 1)) / (tasks - 1),
                "fwt": sum(matrix[j - 1][j] - values[0][j] for j in range(1, tasks)) / (tasks - 1),
            },
            "forgetting": {
                "best_minus_last": sum(
                    max(row[j] for row in matrix[:-1]) - matrix[-1][j] for j in range(tasks - 1)
                )
                / (tasks - 1),
                "best_minus_last_k": [
                    *(max(row[j] for row in matrix[:-1]) - matrix[-1][j] for j in range(tasks - 1)),
                    None,
                ],
            },
        },
        "timing": {
            "train_seconds": 4.2 + 0.1 * noise.random(),
            "eval_seconds": 0.8,
            "samples_per_second": 21000.0,
            "peak_memory_bytes": 512 * 2**20,
        },
        "environment": {
            "python": "3.12.1",
            "torch": "2.9.0",
            "device": "cpu",
            "git_revision": "0123abc",
        },
    }


def write_run(folder: Path, content: dict[str, Any], epochs: int = 2) -> Path:
    """Write results.json, matrix.csv, events.jsonl and config.yaml of a run."""
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(content, indent=1), "utf-8")
    matrix = content["matrix"]
    with (folder / "matrix.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["after", *matrix["columns"]])
        writer.writerows(
            [name, *row] for name, row in zip(matrix["rows"], matrix["values"], strict=True)
        )
    events: list[dict[str, Any]] = []
    for i, name in enumerate(matrix["rows"][1:]):
        for epoch in range(epochs):
            events.append(
                {
                    "event": "epoch",
                    "experience": i,
                    "epoch": epoch,
                    "step": 40 * (epoch + 1),
                    "loss": 0.9 / (1 + epoch) + 0.05 * i + 0.01 * content["seed"],
                    "samples": 5000,
                    "seconds": 0.4,
                }
            )
        events.append({"event": "experience", "experience": i, "name": name, "seconds": 0.8})
        values = dict(zip(matrix["columns"], matrix["values"][i + 1], strict=True))
        events.append({"event": "evaluation", "row": name, "values": values, "seconds": 0.1})
    text = "".join(json.dumps(event) + "\n" for event in events)
    (folder / "events.jsonl").write_text(text, "utf-8")
    (folder / "config.yaml").write_text(
        f"stream:\n  name: {content['stream']}\n  parts: {len(matrix['columns'])}\n"
        f"scenario: {content['scenario']}\nstrategy: {content['strategy']}\n"
        f"model:\n  name: mlp\n  hidden: [400, 400]\ntrainer:\n  max_epochs: {epochs}\n"
        f"seed: {content['seed']}\nrun_dir: {folder.name}\n",
        "utf-8",
    )
    return folder


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Make a run folder below `tmp_path`: `make_run(strategy="ewc", seed=1, keep=0.9)`."""

    def make(folder: str | None = None, edit: Any = None, **settings: Any) -> Path:
        content = results(**settings)
        name = folder or "{stream}/{strategy}/s{seed}".format(**content)
        path = write_run(tmp_path / name, content)
        if edit is not None:  # of results.json alone, so that it may be anything
            edit(content)
            (path / "results.json").write_text(json.dumps(content), "utf-8")
        return path

    return make


@pytest.fixture
def sweep(make_run: MakeRun, tmp_path: Path) -> Path:
    """Three strategies, three seeds each, on one stream."""
    for strategy, keep in (("naive", 0.5), ("ewc", 0.9), ("replay", 0.91)):
        for seed in range(3):
            make_run(strategy=strategy, seed=seed, keep=keep)
    return tmp_path
