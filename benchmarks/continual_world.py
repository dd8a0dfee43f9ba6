"""Continual World's tasks learned by imitation, in the form of its table.

    python benchmarks/continual_world.py --out runs/continual_world --seeds 0 1 2 [--markdown FILE]

Each cell is ``clframe fit experiment=continual_world/<method> stream=metaworld_<stream> seed=N``
(see grid.py for what is run and kept); ``<method>_shared`` has one head for all tasks, which are
told by a code among the inputs; the single-task runs that forward transfer is measured against are
``experiment=continual_world/naive stream.tasks=[<task>]``. The table is printed and written to
``table.md`` in the output folder, everything that was measured to ``table.json``; with
``--markdown`` a page is written, and its numbers next to it.

Published: the CW20 table of the paper's repository (Wołczyk et al., 2021), learned by reinforcement
with a million steps per task. Learning from demonstrations is another problem, so the numbers are
side by side to compare the order of methods and not their values.
"""

from __future__ import annotations

import datetime
import itertools
import statistics
from collections.abc import Sequence
from typing import Any

import grid
import robot_grid

from clframe import metrics
from clframe.streams.metaworld.stream import CW10

STREAMS = ("cw10", "cw20")
METHODS = (*robot_grid.REGULARIZERS, "replay", "packnet", "multitask")
SHARED = ("model.heads=shared", "stream.task_input=one_hot")
"""One head for all tasks, which are told by a code among the inputs."""
COLUMNS = ("performance", "forgetting", "forward_transfer")
PUBLISHED: dict[str, tuple[float | None, ...]] = {
    "naive": (0.05, 0.73, 0.20),
    "ewc": (0.60, 0.02, -0.18),
    "mas": (0.51, 0.00, -0.52),
    "replay": (0.12, 0.07, -1.34),
    "packnet": (0.80, 0.00, 0.18),
    "multitask": (0.51, None, None),
}


def make_cells(
    methods: Sequence[str], streams: Sequence[str], tasks: Sequence[str]
) -> dict[str, list[str]]:
    """The settings of every cell: methods on streams, and tasks learned alone."""
    cells = {
        f"{stream}_{method}": [
            *robot_grid.variant(method, "continual_world/", SHARED),
            f"stream=metaworld_{stream}",
        ]
        for method, stream in itertools.product(methods, streams)
    }
    for task in tasks:
        cells[f"single_{task}"] = ["experiment=continual_world/naive", f"stream.tasks=[{task}]"]
    return cells


def measure(results: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run: success after every row, success while learning, seconds."""
    matrix = results["matrix"]
    learned = [name for name in matrix["rows"] if name != "before"]
    values = dict(zip(matrix["rows"], matrix["values"], strict=True))
    curves = [_curve(results["curves"], row) for row in learned]
    return {
        "columns": matrix["columns"],
        "rows": [task for task, _ in curves],
        "values": [values[row] for row in learned],
        "curves": [curve for _, curve in curves],
        "train_seconds": round(results["timing"]["train_seconds"], 1),
        "eval_seconds": round(results["timing"]["eval_seconds"], 1),
        "source": results["source"],
    }


def _curve(curves: dict[str, dict[str, list[float]]], row: str) -> tuple[str, list[float] | None]:
    """The task of a row and its success while it was learned, if that was measured."""
    first = next(iter(curves.get(row, {}).items()), None)
    # Where a task comes back the row is named "task (2)".
    return first or (row.split(" (")[0], None)


def references(found: grid.Found) -> dict[str, list[float]]:
    """By task, the success of the runs that learned it alone, while they did; mean over seeds."""
    curves: dict[str, list[list[float]]] = {}
    for cell, seeds in found.items():
        if cell.startswith("single_"):
            for run in seeds.values():
                curves.setdefault(run["rows"][0], []).append(run["curves"][0])
    return {
        task: [statistics.mean(values) for values in zip(*several, strict=True)]
        for task, several in curves.items()
    }


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
    """Return all methods with values, next to the published ones."""
    lines = [
        "| | | | by imitation | | | published for CW20, by reinforcement | | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        "| stream | method | seeds | performance | forgetting | forward transfer "
        "| performance | forgetting | forward transfer |",
    ]
    reference = references(found)
    for stream, method in itertools.product(STREAMS, METHODS):
        seeds = found.get(f"{stream}_{method}", {})
        if not seeds:
            continue
        judged = [judge(run, reference, method == "multitask") for run in seeds.values()]
        cells = [grid.mean_and_error([one.get(name) for one in judged]) for name in COLUMNS]
        known = PUBLISHED.get(method, (None,) * len(COLUMNS))
        published = ["-" if value is None else f"{value:.2f}" for value in known]
        line = [stream.upper(), method, str(len(seeds)), *cells, *published]
        lines.append(f"| {' | '.join(line)} |")
    return "\n".join(lines)


def by_task(found: grid.Found) -> str:
    """Success on each task right after it was learned for the last time, and at the end."""
    runs = {
        f"{stream.upper()} {method}": list(found[f"{stream}_{method}"].values())
        for stream, method in itertools.product(STREAMS, METHODS)
        if found.get(f"{stream}_{method}")
    }
    alone = [found.get(f"single_{task}", {}).values() for task in CW10]
    lines = [
        f"| task | {' | '.join([*runs, 'alone'])} |",
        f"| {' | '.join(['---'] * (len(runs) + 2))} |",
    ]
    for task, single in zip(CW10, alone, strict=True):
        cells = []
        for name, several in runs.items():
            ends = [run["values"][-1][run["columns"].index(task)] for run in several]
            cells.append(f"{statistics.mean(ends):.2f}")
            if not name.endswith("multitask"):
                learned = [_right_after(run, task) for run in several]
                cells[-1] = f"{statistics.mean(learned):.2f} → {cells[-1]}"
        finals = [run["values"][-1][0] for run in single]
        cells.append(f"{statistics.mean(finals):.2f}" if finals else "-")
        lines.append(f"| {task} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _right_after(run: dict[str, Any], task: str) -> float:
    """The success on a task when it had just been learned, for the last time."""
    row = max(place for place, name in enumerate(run["rows"]) if name == task)
    value: float = run["values"][row][run["columns"].index(task)]
    return value


def _seeds_alone(found: grid.Found) -> str:
    """How many seeds the tasks were learned alone with."""
    least = min(len(found.get(f"single_{task}", {})) for task in CW10)
    return f"{least} seed{'' if least == 1 else 's'}"


def page(found: grid.Found, command: str, numbers_file: str) -> str:
    """The results page."""
    source = next(iter(next(iter(found.values())).values()))["source"]
    return f"""# Continual World by imitation

`{command}`, {datetime.date.today().isoformat()}:
{source}.

The tasks, their order, the success criterion (the goal holds at any of 200 steps) and the metrics
are from Continual World (Wołczyk et al., 2021); the learner is another one. There, soft
actor-critic learns each task from a million steps of its own; here its network (four layers of 256
units, leaky after a first layer that is normalised; a head for each task, which the rest is not
told) clones demonstrations. So the published numbers, of CW20, are next to ours to compare the
order of methods and not their values. `naive_shared` and `ewc_shared` have one head for all tasks,
and a one-hot code of the task among the inputs (`{" ".join(SHARED)}`).
The strength of `ewc` was chosen on other goals and another seed ([strengths.md](strengths.md));
`ewc_shared` has the same. Those of `si` and `mas` are not chosen yet. Mean ± standard error over
seeds.

{table(found)}

*Performance*: mean final success. *Forgetting*: success right after learning minus final success.
*Forward transfer*: area between the success curves of this run and of runs that learn
one task alone, from scratch and for as long, divided by the area above the latter. A method that
learns all tasks at once has no value for the last two.

Every task is learned for 20 epochs, by multitask, the upper bound, for 60. A task's success is
measured on few episodes, always the same ones: of ten, a rate of 0.9 has a 95 % interval of 0.60 to
0.98.

## Task by task

Success right after learning → at the end, mean over seeds; *alone*: the final success of the
single-task runs ({_seeds_alone(found)}).

{by_task(found)}

The values of each run are in `{numbers_file}`.
"""


def main() -> None:
    """Run what is missing and print the table."""
    parser = robot_grid.parser(__doc__, "runs/continual_world", METHODS)
    parser.add_argument("--streams", nargs="+", default=["cw10"], choices=STREAMS)
    parser.add_argument("--no-reference", action="store_true", help="leave single-task runs out")
    arguments = parser.parse_args()
    tasks = [] if arguments.no_reference else CW10
    cells = make_cells(arguments.methods, arguments.streams, tasks)
    found = robot_grid.run(cells, arguments, measure)
    robot_grid.show(found, arguments, table, page, __file__)


if __name__ == "__main__":
    main()
