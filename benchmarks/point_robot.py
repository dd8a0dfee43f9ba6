"""Regularisers on a point on a plane, four tasks: seconds a run, and no simulator.

    python benchmarks/point_robot.py --out runs/point_robot --seeds 0 1 2 [--markdown FILE.md]

Each cell is ``clframe fit experiment=point_robot/<method> seed=N`` (see grid.py for what is run and
kept); ``<method>_shared`` has one head for all tasks. The table is printed and written to
``table.md`` in the output folder, everything that was measured to ``table.json``; with
``--markdown`` a page is written, and its numbers next to it.
"""

from __future__ import annotations

import datetime
import statistics
from typing import Any

import grid
import robot_grid

METHODS = robot_grid.REGULARIZERS
SHARED = ["model.heads=shared"]


def measure(results: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a run: success after every experience, seconds, where the data is from."""
    matrix, timing = results["matrix"], results["timing"]
    values = zip(matrix["rows"], matrix["values"], strict=True)
    return {
        "columns": matrix["columns"],
        "values": [row for name, row in values if name != "before"],
        "train_seconds": round(timing["train_seconds"], 1),
        "eval_seconds": round(timing["eval_seconds"], 1),
        "source": results["source"],
    }


def table(found: grid.Found) -> str:
    """All methods that have values: success at the end, and right after learning."""
    lines = [
        "| method | final success of each seed | final success | right after learning |",
        "| --- | --- | --- | --- |",
    ]
    for method in METHODS:
        runs = [run["values"] for run in found.get(f"point_{method}", {}).values()]
        if not runs:
            continue
        finals = [statistics.mean(values[-1]) for values in runs]
        learned = [statistics.mean(row[k] for k, row in enumerate(values)) for values in runs]
        each = ", ".join(f"{value:.2f}" for value in finals)
        ends = [grid.mean_and_error(values) for values in (finals, learned)]
        lines.append(f"| {method} | {each} | {' | '.join(ends)} |")
    return "\n".join(lines)


def page(found: grid.Found, command: str, numbers_file: str) -> str:
    """The results page."""
    run = next(iter(next(iter(found.values())).values()))
    return f"""# A point on a plane

`{command}`, {datetime.date.today().isoformat()}: {run["source"]}.

`experiment=point_robot/<method>`: two layers of 64 leaky units that are given the state and the
task's number, and a head for each task (`<method>_shared`: one for all, `{SHARED[0]}`).
Four tasks; the same sight asks for another action in each. Strengths of `ewc`, `si` and `mas` were
chosen on other goals and another seed ([strengths.md](strengths.md)); `ewc_shared` has that of
`ewc`. A task is measured by 20 episodes, always the same ones. Mean ± standard error over seeds.

{table(found)}

The values of each run are in `{numbers_file}`.
"""


def main() -> None:
    """Run what is missing and print the table."""
    arguments = robot_grid.parser(__doc__, "runs/point_robot", METHODS).parse_args()
    cells = {
        f"point_{method}": robot_grid.variant(method, "point_robot/", SHARED)
        for method in arguments.methods
    }
    found = robot_grid.run(cells, arguments, measure)
    robot_grid.show(found, arguments, table, page, __file__)


if __name__ == "__main__":
    main()
