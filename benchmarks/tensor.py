"""The forgetting tensor of naive learning and experience replay: three tasks, three axes.

    python benchmarks/tensor.py --out runs/tensor --seeds 0 1 2 [--markdown FILE.md]

Each cell is ``clframe fit experiment=tabletop_tensor/<method> stream.goal_seed=2 seed=N`` (see
grid.py for what is run and kept). The table is printed; with ``--markdown`` a page is written, and
next to it the values as JSON and a figure for each method.
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import Any

import grid
import robot_grid

from clframe.core.matrix import AccuracyMatrix
from clframe.core.results import Result
from clframe.evaluation.forgetting_tensor import ForgettingTensor
from clframe.report.figure_style import save
from clframe.report.tensor import tensor_curves
from clframe.worlds.tabletop.perturb import AXES

METHODS = ("naive", "er")
COLUMNS = ("learned", "final", "skill_left", "robust_left", "lead")
GOALS = "stream.goal_seed=2"


def measure(results: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run."""
    timing = results["timing"]
    return {
        "matrix": results["matrix"],
        "tensor": results["tensor"],
        "robustness": results["metrics"]["robustness"],
        "train_seconds": round(timing["train_seconds"], 1),
        "eval_seconds": round(timing["eval_seconds"], 1),
        "source": results["source"],
    }


def table(found: grid.Found) -> str:
    """Return the remaining shares of skill and robustness, by method."""
    lines = [
        "| method | seeds | robustness, learned | at the end | skill left | robust success left "
        "| lead |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for cell, seeds in found.items():
        runs = [run["robustness"] for run in seeds.values()]
        numbers = [grid.mean_and_error([run[name] for run in runs]) for name in COLUMNS]
        lines.append(f"| {' | '.join([_method(cell), str(len(runs)), *numbers])} |")
    return "\n".join(lines)


def by_axis(found: grid.Found) -> str:
    """The same for each axis."""
    lines = [
        "| method | axis | robustness, learned | at the end | robust success left |",
        "| --- | --- | --- | --- | --- |",
    ]
    for cell, seeds in found.items():
        runs = [run["robustness"]["axes"] for run in seeds.values()]
        for axis in runs[0]:
            names = ("learned", "final", "left")
            numbers = [grid.mean_and_error([run[axis][name] for run in runs]) for name in names]
            lines.append(f"| {' | '.join([_method(cell), axis, *numbers])} |")
    return "\n".join(lines)


def _method(cell: str) -> str:
    return cell.removeprefix("tensor_")


def results_of(seeds: dict[str, Any]) -> list[Result]:
    """The results of a cell as far as its figure needs them."""
    made = []
    for seed, run in seeds.items():
        matrix = AccuracyMatrix.from_json(run["matrix"])
        tensor = ForgettingTensor.from_json(matrix.columns, run["tensor"])
        made.append(Result("tabletop_goal", "", "task", int(seed), matrix, tensor))
    return made


def page(found: grid.Found, command: str, numbers_file: str) -> str:
    """The results page."""
    run = next(iter(next(iter(found.values())).values()))
    stem = Path(numbers_file).stem
    axes = "\n".join(f"- `{axis}`: {AXES[axis]}." for axis in run["tensor"]["axes"])
    images = "\n\n".join(
        f"![{_method(c)}]({stem}_{_method(c)}.png)\n\n*{_method(c)}*" for c in found
    )
    seconds = [r["eval_seconds"] for seeds in found.values() for r in seeds.values()]
    trained = [r["train_seconds"] for seeds in found.values() for r in seeds.values()]
    return f"""# The forgetting tensor: skill or robustness first?

`{command}`, {datetime.date.today().isoformat()}: {run["source"]}.

Three tasks of `tabletop_goal`, learned one after the other by a perceptron that observes the state
and has a head for each task (`experiment=tabletop_tensor/<method>`). After each, all tasks learned
so far are measured by 10 rollouts as demonstrated and by the same 10 under each axis at levels 0.5
and 1:

{axes}

Start states are those of `{GOALS}`, on which nothing was chosen. A run takes
{sum(trained) / len(trained):.0f} s of training and {sum(seconds) / len(seconds):.0f} s of rollouts,
six sevenths of them perturbed.

{table(found)}

*robustness*: success under perturbation over success without, mean over axes and levels, right
after a task was learned and at the end; *skill left* and *robust success left*: what the end has of
the success right after learning on earlier tasks, without and under perturbation; *lead*: the
former minus the latter, above 0 where robustness is forgotten first ([metrics.md](../metrics.md)).
Mean ± standard error over seeds.

{by_axis(found)}

Means over seeds; level 0 is the skill as it was demonstrated:

{images}

The values of each run are in `{numbers_file}`.
"""


def draw(found: grid.Found, markdown: Path) -> None:
    """Draw a figure for each method, next to the page."""
    for cell, seeds in found.items():
        figure = tensor_curves(results_of(seeds))
        save(figure, markdown.with_name(f"{markdown.stem}_{_method(cell)}.png"))


def main() -> None:
    """Run what is missing, print the table, and write the page where it is asked for."""
    arguments: argparse.Namespace = robot_grid.parser(__doc__, "runs/tensor", METHODS).parse_args()
    cells = {f"tensor_{m}": [f"experiment=tabletop_tensor/{m}", GOALS] for m in arguments.methods}
    found = robot_grid.run(cells, arguments, measure)
    found = {f"tensor_{m}": found[f"tensor_{m}"] for m in METHODS if f"tensor_{m}" in found}
    robot_grid.show(found, arguments, table, page, __file__)
    if arguments.markdown is not None:
        draw(found, arguments.markdown)


if __name__ == "__main__":
    main()
