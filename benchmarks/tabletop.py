"""Five tasks of the tabletop's goal suite in LIBERO's protocol: FWT, NBT and AUC of each method.

    python benchmarks/tabletop.py --out runs/tabletop --seeds 0 1 2 [--markdown FILE.md]

Each cell is ``clframe fit experiment=tabletop/goal5_<method> seed=N`` (see grid.py for what is run
and kept); ``<method>_shared`` has one head for all tasks. The table is printed and written to
``table.md`` in the output folder, everything that was measured to ``table.json``; with
``--markdown`` a page is written, and its numbers next to it.

Published: LIBERO's Table 8, ResNet-T on LIBERO-Goal (Liu et al., 2023): ten tasks, images, human
demonstrations and another simulator. The numbers are side by side to compare the order of
methods and not their values.
"""

from __future__ import annotations

import datetime
import statistics
from typing import Any

import grid
import robot_grid

METHODS = (*robot_grid.REGULARIZERS, "er", "packnet", "multitask")
SHARED = ["model.heads=shared"]
COLUMNS = ("fwt", "nbt", "auc")
PUBLISHED: dict[str, tuple[float | None, ...]] = {
    "naive": (0.77, 0.82, 0.22),
    "er": (0.64, 0.34, 0.49),
    "ewc": (0.32, 0.48, 0.06),
    "packnet": (0.63, 0.06, 0.75),
    "multitask": (None, None, 0.80),
}


def measure(results: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run: success after every row and on the way, LIBERO's metrics, seconds."""
    matrix, timing = results["matrix"], results["timing"]
    found = results["metrics"].get("libero", {})
    return {
        "columns": matrix["columns"],
        "values": [
            values
            for row, values in zip(matrix["rows"], matrix["values"], strict=True)
            if row != "before"
        ],
        "curves": [next(iter(tasks.values())) for tasks in results["curves"].values()],
        "libero": {name: found.get(name) for name in COLUMNS},
        "train_seconds": round(timing["train_seconds"], 1),
        "eval_seconds": round(timing["eval_seconds"], 1),
        "source": results["source"],
        "mujoco": results["environment"]["versions"]["mujoco"],
    }


def numbers(run: dict[str, Any]) -> dict[str, float | None]:
    """One run's line of the table; learning all at once has its final success as AUC."""
    final = statistics.mean(run["values"][-1])
    if run["curves"]:
        return {**run["libero"], "final": final}
    return {"fwt": None, "nbt": None, "auc": final, "final": final}


def table(found: grid.Found) -> str:
    """Return all methods with values, next to the published ones."""
    lines = [
        "| | | here | | | | | LIBERO-Goal, published | | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        "| method | seeds | FWT | NBT | AUC | final success | minutes, in rollouts "
        "| FWT | NBT | AUC |",
    ]
    for method in METHODS:
        runs = list(found.get(f"goal5_{method}", {}).values())
        if not runs:
            continue
        judged = [numbers(run) for run in runs]
        cells = [grid.mean_and_error([one[name] for one in judged]) for name in (*COLUMNS, "final")]
        known = PUBLISHED.get(method, (None,) * len(COLUMNS))
        published = ["-" if value is None else f"{value:.2f}" for value in known]
        line = [method, str(len(runs)), *cells, _time(runs), *published]
        lines.append(f"| {' | '.join(line)} |")
    return "\n".join(lines)


def _time(runs: list[dict[str, Any]]) -> str:
    """Mean minutes of a run, and the share of them spent in rollouts."""
    rollouts = sum(run["eval_seconds"] for run in runs)
    whole = rollouts + sum(run["train_seconds"] for run in runs)
    return f"{whole / len(runs) / 60:.1f}, {rollouts / whole:.0%}"


def by_task(found: grid.Found) -> str:
    """Success on each task right after it was learned, and at the end."""
    runs = {
        method: list(found[f"goal5_{method}"].values())
        for method in METHODS
        if found.get(f"goal5_{method}")
    }
    first = next(iter(runs.values()))[0]
    lines = [f"| task | {' | '.join(runs)} |", f"| {' | '.join(['---'] * (len(runs) + 1))} |"]
    for place, task in enumerate(first["columns"]):
        cells = []
        for several in runs.values():
            end = statistics.mean(run["values"][-1][place] for run in several)
            then = statistics.mean(run["values"][place][place] for run in several)
            learned = f"{then:.2f} → " if several[0]["curves"] else ""
            cells.append(f"{learned}{end:.2f}")
        lines.append(f"| {task.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def page(found: grid.Found, command: str, numbers_file: str) -> str:
    """The results page."""
    run = next(iter(next(iter(found.values())).values()))
    return f"""# Tabletop: five goals in LIBERO's protocol

`{command}`, {datetime.date.today().isoformat()}: {run["source"]}.

`experiment=tabletop/goal5_<method>`: a perceptron with leaky units that is given the state and the
task's number, and has a head for each task (`<method>_shared`: one for all, `{SHARED[0]}`);
the current task is measured before learning and every 25 of 50 epochs by 10 rollouts of at most 120
steps, the best of these points is kept, then all tasks learned so far are measured. LIBERO takes
every 5 of 50 epochs, 20 rollouts and 600 steps (`experiment=tabletop/libero_<method>`). Published:
LIBERO's Table 8, ResNet-T on the ten tasks of LIBERO-Goal (Liu et al., 2023), with images, human
demonstrations, another simulator and one head; to be compared in the order of methods and not in
values. Mean ± standard error over seeds.

{table(found)}

*FWT*: success while a task is learned, held at its best; *NBT*: best success minus success after
later tasks, so forgetting; *AUC*: success from learning to the end. *multitask* learns all at once
and has its final success as AUC. PackNet is measured after pruning and retraining; its fifth task
finds a third of the weights free and keeps a quarter of these. The strength of `ewc` was chosen on
other goals and another seed ([strengths.md](strengths.md)); `ewc_shared` has the same. Those of
`si` and `mas` are not chosen yet. Time is that of one process on a shared machine.

## Task by task

Success right after learning → at the end, mean over seeds.

{by_task(found)}

The values of each run are in `{numbers_file}`.
"""


def main() -> None:
    """Run what is missing and print the table."""
    arguments = robot_grid.parser(__doc__, "runs/tabletop", METHODS).parse_args()
    cells = {
        f"goal5_{method}": robot_grid.variant(method, "tabletop/goal5_", SHARED)
        for method in arguments.methods
    }
    found = robot_grid.run(cells, arguments, measure)
    robot_grid.show(found, arguments, table, page, __file__)


if __name__ == "__main__":
    main()
