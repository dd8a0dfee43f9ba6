"""Continual learning by reward on a point on a plane, four tasks: what is forgotten, and what not.

    python benchmarks/point_robot_rl.py --out runs/point_robot_rl --set stream.goal_seed=1
    python benchmarks/point_robot_rl.py --out runs/point_robot_rl_tried --tried

Each cell is ``clframe fit experiment=continual_rl/point_robot_<method> seed=N`` (see grid.py for
what is run and kept). With ``--tried`` the strengths that were tried are run, on
``stream.goal_seed=5`` and seed 10 alone. Tables are printed and written to ``table.md`` in the
output folder, everything that was measured to ``table.json``; with ``--markdown PAGE`` the first
table is put into a page, and its numbers next to it; with ``--tried`` the other one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import statistics
from typing import Any

import grid
import robot_grid
from marked_page import put_table

METHODS = ("naive", "replay", "packnet", "ewc", "si", "mas")
GOAL_SEED, SEED = 5, 10
"""Of the runs in which strengths were tried."""
TRIED: dict[str, tuple[str, list[str]]] = {
    "naive": ("naive", []),
    "replay": ("replay", []),
    "packnet": ("packnet", []),
    "ewc 100": ("ewc", ["strategy.ewc.weight=100"]),
    "ewc 10 proximal": ("ewc", ["strategy.ewc.weight=10", "strategy.ewc.step=proximal"]),
    "ewc 1000 proximal": ("ewc", ["strategy.ewc.weight=1000", "strategy.ewc.step=proximal"]),
    "ewc 100000 proximal": ("ewc", ["strategy.ewc.weight=100000", "strategy.ewc.step=proximal"]),
    "si 1": ("si", ["strategy.si.c=1"]),
    "si 10": ("si", ["strategy.si.c=10"]),
    "mas 1": ("mas", ["strategy.mas.weight=1"]),
    "mas 10": ("mas", ["strategy.mas.weight=10"]),
}
"""By name, a method and the settings it was tried with."""


def measure(results: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run: success after every experience."""
    matrix = results["matrix"]
    values = zip(matrix["rows"], matrix["values"], strict=True)
    return {
        "columns": matrix["columns"],
        "values": [row for name, row in values if name != "before"],
    }


def run(cells: grid.Cells, arguments: argparse.Namespace) -> grid.Found:
    """Run what is missing one by one, and note the CPU time of each run, its start included."""
    notes = arguments.out / "cpu_seconds.json"
    spent: dict[str, float] = json.loads(notes.read_text()) if notes.exists() else {}
    found: grid.Found = {}
    for seed, (cell, settings) in itertools.product(arguments.seeds, cells.items()):
        one = argparse.Namespace(**{**vars(arguments), "seeds": [seed], "jobs": 1})
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        there = (arguments.out / cell / f"s{seed}" / "results.json").exists()
        found = robot_grid.run({cell: settings}, one, measure)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if not there:
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            # Of a run that was interrupted, all of its beginnings.
            spent[f"{cell} {seed}"] = spent.get(f"{cell} {seed}", 0.0) + seconds
            notes.write_text(json.dumps(spent, indent=1) + "\n")
    for cell, seeds in found.items():
        for seed, values in seeds.items():
            values.setdefault("cpu_seconds", round(spent[f"{cell} {seed}"], 1))
    return found


def summary(run: dict[str, Any]) -> tuple[float, float, float, float]:
    """Mean success right after learning, the least of it, at the end, and what was forgotten.

    >>> summary({"values": [[1.0, 0.0], [0.5, 0.75]]})
    (0.875, 0.75, 0.625, 0.5)
    """
    values = run["values"]
    learned = [row[task] for task, row in enumerate(values)]
    lost = [before - after for before, after in zip(learned[:-1], values[-1][:-1], strict=True)]
    return (
        statistics.mean(learned),
        min(learned),
        statistics.mean(values[-1]),
        statistics.mean(lost),
    )


def table(found: grid.Found) -> str:
    """All cells that have values, a line each."""
    lines = [
        "| method | learned | the least | final | final of each seed | forgetting | CPU s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for cell, seeds in found.items():
        runs = list(seeds.values())
        learned, least, final, lost = zip(*map(summary, runs), strict=True)
        cpu = statistics.mean(run["cpu_seconds"] for run in runs)
        each = ", ".join(f"{value:.2f}" for value in final)
        name = cell.removeprefix("point_").replace("_", " ")
        lines.append(
            f"| {name} | {grid.mean_and_error(learned)} | {min(least):.2f} | "
            f"{grid.mean_and_error(final)} | {each} | {grid.mean_and_error(lost)} | {cpu:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run what is missing and print the table."""
    parser = robot_grid.parser(__doc__, "runs/point_robot_rl", METHODS)
    parser.add_argument("--tried", action="store_true", help="the strengths that were tried")
    arguments = parser.parse_args()
    cells = {
        f"point_{method}": [f"experiment=continual_rl/point_robot_{method}"]
        for method in arguments.methods
    }
    order = [f"point_{method}" for method in METHODS]
    if arguments.tried:
        arguments.seeds = [SEED]
        arguments.set = [*arguments.set, f"stream.goal_seed={GOAL_SEED}"]
        cells = {
            f"point_{name.replace(' ', '_')}": [
                f"experiment=continual_rl/point_robot_{method}",
                *settings,
            ]
            for name, (method, settings) in TRIED.items()
            if method in arguments.methods
        }
        order = [f"point_{name.replace(' ', '_')}" for name in TRIED]
    found = run(cells, arguments)
    found = {cell: found[cell] for cell in order if cell in found}
    text = table(found)
    grid.write(arguments.out, found, text, "point_robot_rl.py")
    print("\n" + text)
    if arguments.markdown is not None:
        put_table(arguments.markdown, "tried" if arguments.tried else "measured", text)
        if not arguments.tried:
            numbers = arguments.markdown.with_suffix(".json")
            numbers.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
