"""Continual World's tasks learned by imitation, in the form of its table.

    python benchmarks/continual_world.py --out runs/continual_world --seeds 0 1 2

Each cell is ``clframe fit experiment=continual_world/<stream>_<method> seed=N`` (see grid.py for
what is run and kept), and ``single_<task>`` for the single-task runs that forward transfer is
measured against. The table is printed and written to ``table.md`` in the output folder, everything
that was measured to ``table.json``.

Published: the CW20 table of the paper's repository (Wołczyk et al., 2021), learned by reinforcement
with a million steps a task. Learning from demonstrations is another problem, so the numbers stand
beside each other to compare the order of methods and not their values.
"""

from __future__ import annotations

import itertools
import math
import statistics
from pathlib import Path
from typing import Any

import grid

from clframe import metrics
from clframe.streams.metaworld import CW10

METHODS = ("naive", "ewc", "replay", "packnet", "multitask")
COLUMNS = ("performance", "forgetting", "forward_transfer")
PUBLISHED: dict[str, tuple[float | None, ...]] = {
    "naive": (0.05, 0.73, 0.20),
    "ewc": (0.60, 0.02, -0.18),
    "replay": (0.12, 0.07, -1.34),
    "packnet": (0.80, 0.00, 0.18),
    "multitask": (0.51, None, None),
}


def measure(results: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run: success after every row, success while learning, seconds."""
    matrix = results["matrix"]
    learned = [name for name in matrix["rows"] if name != "before"]
    values = dict(zip(matrix["rows"], matrix["values"], strict=True))
    curves = [next(iter(results["curves"].get(row, {"": None}).items())) for row in learned]
    return {
        "columns": matrix["columns"],
        "rows": [task for task, _ in curves],
        "values": [values[row] for row in learned],
        "curves": [curve for _, curve in curves],
        "train_seconds": round(results["timing"]["train_seconds"], 1),
        "eval_seconds": round(results["timing"]["eval_seconds"], 1),
        "source": results["source"],
    }


def references(found: grid.Found, seed: str) -> dict[str, list[float]]:
    """The success of the single-task runs of a seed while they learned, by task."""
    runs = [
        seeds[seed] for cell, seeds in found.items() if cell.startswith("single_") and seed in seeds
    ]
    return {run["rows"][0]: run["curves"][0] for run in runs}


def judge(run: dict[str, Any], reference: dict[str, list[float]], joint: bool) -> dict[str, Any]:
    """Continual World's metrics of a run; of one that learned all at once, performance alone."""
    found = metrics.continual_world(
        run["values"],
        [[run["columns"].index(task)] for task in run["rows"]],
        run["curves"],
        [reference.get(task) for task in run["rows"]],
    )
    return {"performance": found["performance"]} if joint else found


def table(found: grid.Found) -> str:
    """All methods that have values, beside the published ones."""
    lines = [
        "| stream | method | seeds | performance | forgetting | forward transfer "
        "| train s | eval s | published for CW20, by reinforcement |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for stream, method in itertools.product(("cw10", "cw20"), METHODS):
        seeds = found.get(f"{stream}_{method}", {})
        if not seeds:
            continue
        judged = [
            judge(run, references(found, seed), method == "multitask")
            for seed, run in seeds.items()
        ]
        cells = [_mean([one.get(name) for one in judged]) for name in COLUMNS]
        seconds = [
            f"{statistics.mean(run[key] for run in seeds.values()):.0f}"
            for key in ("train_seconds", "eval_seconds")
        ]
        published = " / ".join("-" if v is None else f"{v:.2f}" for v in PUBLISHED[method])
        line = [stream.upper(), method, str(len(seeds)), *cells, *seconds, published]
        lines.append(f"| {' | '.join(line)} |")
    single = [
        run["values"][-1][0]
        for cell, seeds in found.items()
        if cell.startswith("single_")
        for run in seeds.values()
    ]
    if single:
        lines += ["", f"Single-task runs: mean final success {statistics.mean(single):.2f}."]
    return "\n".join(lines)


def _mean(values: list[float | None]) -> str:
    """Mean and standard error; a dash where something is not known."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return "-"
    text = f"{statistics.mean(known):.2f}"
    if len(known) > 1:
        text += f" ± {statistics.stdev(known) / math.sqrt(len(known)):.2f}"
    return text


def main() -> None:
    """Run what is missing and print the table."""
    parser = grid.parser(__doc__, "runs/continual_world")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--streams", nargs="+", default=["cw10"], choices=["cw10", "cw20"])
    parser.add_argument("--no-reference", action="store_true", help="leave single-task runs out")
    arguments = parser.parse_args()
    known = grid.read_known(arguments.known)
    names = [f"{s}_{m}" for m, s in itertools.product(arguments.methods, arguments.streams)]
    if not arguments.no_reference:
        names += [f"single_{task}" for task in CW10]
    cells = [(name, seed) for seed, name in itertools.product(arguments.seeds, names)]
    extra = list(arguments.set)
    if arguments.data_dir is not None:
        extra.append(f"data_dir={arguments.data_dir}")
    if arguments.jobs > 1:
        # The runs share the processor's cores as it is.
        extra.append("stream.processes=1")
    grid.run_all("continual_world", cells, known, arguments.out, arguments.jobs, extra)
    found = grid.collect(arguments.out, known, measure)
    text = table(found)
    grid.write(arguments.out, found, text, Path(__file__).name)
    print("\n" + text)


if __name__ == "__main__":
    main()
