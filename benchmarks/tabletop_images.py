"""Four tasks of the tabletop's goal suite by images, and heads of policies side by side.

    python benchmarks/tabletop_images.py --seeds 0 1 2 [--out FOLDER] [--markdown FILE.md]

Three tables (``--tables``; see grid.py for what is run and kept):

* ``alone``: each task by itself, ``experiment=tabletop/images_naive stream.tasks=[N]``;
* ``methods``: all four in turn, ``experiment=tabletop/images_<method>``;
* ``heads``: acting rules, grip, chunks and flow at equal budgets, from the state, on one task.

Settings were chosen on other goals (``stream.goal_seed=5``) than those that are measured (1).
"""

from __future__ import annotations

import datetime
import statistics
from typing import Any

import grid
import robot_grid

METHODS = ("naive", "er", "ewc", "packnet", "multitask")
TASKS = {
    0: "open the middle drawer",
    5: "push the plate to the front of the stove",
    7: "turn on the stove",
    8: "put the bowl on the plate",
}
COLUMNS = ("fwt", "nbt", "auc")
MEASURED = ["stream.goal_seed=1"]
"""Goals that no setting was chosen on."""

BUDGET = [
    "stream=tabletop_goal",
    "stream.tasks=[8]",
    "stream.num_demos=20",
    "stream.eval_episodes=20",
    "stream.horizon=150",
    "stream.num_envs=10",
    "model=policy",
    "max_epochs=100",
]
"""What all heads are given: the state, twenty demonstrations, a hundred epochs."""

_GMM = ["model.head=gmm", "model.least_deviation=0.03"]
_CHUNK = ["model.chunk=8"]
HEADS: dict[str, tuple[str, list[str]]] = {
    "mse": ("squared error", ["model.head=mse"]),
    "mode_mean": ("mixture, most likely mode's mean", [*_GMM, "model.act=mode_mean"]),
    "draw": ("mixture, draw", [*_GMM, "model.act=draw"]),
    "draw_mode": ("mixture, draw the mode, do its mean", [*_GMM, "model.act=draw_mode"]),
    "bernoulli": (
        "mixture, draw the mode, grip of its own",
        [*_GMM, "model.act=draw_mode", "model.grip=bernoulli"],
    ),
    "l1_ensemble": (
        "absolute error, chunks of 8, mean of all predictions",
        ["model.head=l1", *_CHUNK],
    ),
    "l1_open": (
        "absolute error, chunks of 8, four done at a time",
        ["model.head=l1", *_CHUNK, "model.execute=4"],
    ),
    "gmm_chunk": (
        "mixture, draw the mode, chunks of 8, mean of all predictions",
        [*_GMM, "model.act=draw_mode", *_CHUNK],
    ),
    "flow": ("flow, single actions", ["model.head=flow"]),
    "flow_chunk": (
        "flow, chunks of 8, four done at a time",
        ["model.head=flow", *_CHUNK, "model.execute=4"],
    ),
}


def cells_of(tables: list[str], methods: list[str]) -> dict[str, list[str]]:
    """The settings of all runs of these tables."""
    cells: dict[str, list[str]] = {}
    if "alone" in tables:
        for task in TASKS:
            alone = ["experiment=tabletop/images_naive", f"stream.tasks=[{task}]"]
            cells[f"alone_{task}"] = [*alone, *MEASURED]
    if "methods" in tables:
        for method in methods:
            cells[f"images_{method}"] = [f"experiment=tabletop/images_{method}", *MEASURED]
    if "heads" in tables:
        for name, (_, settings) in HEADS.items():
            cells[f"heads_{name}"] = [*BUDGET, *settings, *MEASURED]
    return cells


def measure(results: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run."""
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
        "cpu_seconds": round(timing["cpu_seconds"], 1),
        "acting": results["acting"],
        "source": results["source"],
        "mujoco": results["environment"]["versions"]["mujoco"],
    }


def _runs(found: grid.Found, cell: str) -> list[dict[str, Any]]:
    return list(found.get(cell, {}).values())


def _final(runs: list[dict[str, Any]]) -> str:
    return grid.mean_and_error([statistics.mean(run["values"][-1]) for run in runs])


def _minutes(runs: list[dict[str, Any]]) -> str:
    return f"{statistics.mean(run['cpu_seconds'] for run in runs) / 60:.1f}"


NOTHING = "Not measured yet."


def _rows(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if rows else NOTHING


def alone(found: grid.Found) -> str:
    """Each task by itself: success of every seed, and what a run took."""
    rows = []
    for task, words in TASKS.items():
        if runs := _runs(found, f"alone_{task}"):
            each = ", ".join(f"{run['values'][-1][0]:.2f}" for run in runs)
            rows.append([f"{task}: {words}", _final(runs), each, _minutes(runs)])
    return _rows(["task", "success", "of each seed", "CPU minutes"], rows)


def methods(found: grid.Found) -> str:
    """All four in turn."""
    rows = []
    for method in METHODS:
        runs = _runs(found, f"images_{method}")
        if not runs:
            continue
        judged = [run["libero"] for run in runs]
        if not runs[0]["curves"]:  # all at once: its final success stands for AUC
            auc = [statistics.mean(run["values"][-1]) for run in runs]
            judged = [{"fwt": None, "nbt": None, "auc": value} for value in auc]
        values = [grid.mean_and_error([one[name] for one in judged]) for name in COLUMNS]
        rows.append([method, str(len(runs)), *values, _final(runs), _minutes(runs)])
    header = ["method", "seeds", "FWT", "NBT", "AUC", "final success", "CPU minutes"]
    return _rows(header, rows)


def when_learned(found: grid.Found) -> str:
    """The success on each task right after it was learned, of every seed."""
    rows = []
    for method in METHODS:
        runs = [run for run in _runs(found, f"images_{method}") if run["curves"]]
        if runs:
            diagonals = [[run["values"][n][n] for run in runs] for n in range(len(TASKS))]
            cells = [", ".join(f"{value:.2f}" for value in seeds) for seeds in diagonals]
            rows.append([method, *cells])
    return _rows(["method", *TASKS.values()], rows)


def heads(found: grid.Found) -> str:
    """Heads side by side."""
    rows = []
    for name, (words, settings) in HEADS.items():
        if runs := _runs(found, f"heads_{name}"):
            each = ", ".join(f"{run['values'][-1][0]:.2f}" for run in runs)
            said = " ".join(f"`{setting}`" for setting in settings)
            rows.append([words, said, _final(runs), each, _minutes(runs)])
    return _rows(["head", "settings", "success", "of each seed", "CPU minutes"], rows)


def table(found: grid.Found) -> str:
    """All tables."""
    return "\n\n".join((alone(found), methods(found), when_learned(found), heads(found)))


def page(found: grid.Found, command: str, numbers_file: str) -> str:
    """The results page."""
    run = next(iter(next(iter(found.values())).values()))
    budget = " ".join(BUDGET)
    head = f"""# Tabletop by images: four goals

`{command}`, {datetime.date.today().isoformat()}: {run["source"]}.

Settings were chosen on other goals (`stream.goal_seed=5`) than the ones that are measured
(`{MEASURED[0]}`). Success is over 20 episodes a task, mean ± standard error over seeds. CPU minutes
are those of the process, learning and rollouts together (`timing.cpu_seconds`), whatever else the
machine did; demonstrations were there.
"""
    by_itself = f"""
## Each task alone

`experiment=tabletop/images_naive stream.tasks=[N]`: two cameras of 64 pixels, `resnet_t` small.

{alone(found)}
"""
    in_turn = f"""
## The four tasks in turn

`experiment=tabletop/images_<method>`: LIBERO's protocol. *FWT*: success while a task is learned,
held at its best (0.67 is the most, since the first of its three measurements is before learning);
*NBT*: forgetting; *AUC*: success from learning to the end. *multitask* learns all at once and has
its final success as AUC. *ewc* takes its Fisher information from batches, as LIBERO does; its
weight was chosen on other goals, where none holds an old task ([strengths.md](strengths.md)).

{methods(found)}

Success on each task right after it was learned, of every seed:

{when_learned(found)}
"""
    by_head = f"""
## Heads side by side

Put the bowl on the plate, from the state, at equal budgets: `{budget}`. The runs of the three
acting rules are of one seed each time the same network, since acting changes nothing about
learning.

{heads(found)}
"""
    parts = [part for part in (by_itself, in_turn, by_head) if NOTHING not in part]
    tail = f"\nThe values of each run, and how its policy acts, are in `{numbers_file}`.\n"
    return "".join([head, *parts, tail])


def main() -> None:
    """Run what is missing and print the tables."""
    parser = robot_grid.parser(__doc__, "runs/tabletop_images", METHODS)
    tables = ("alone", "methods", "heads")
    parser.add_argument("--tables", nargs="*", default=list(tables), choices=tables)
    arguments = parser.parse_args()
    cells = cells_of(arguments.tables, arguments.methods)
    found = robot_grid.run(cells, arguments, measure)
    robot_grid.show(found, arguments, table, page, __file__)


if __name__ == "__main__":
    main()
