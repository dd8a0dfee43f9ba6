"""How a policy receives its task: LIBERO's Table 3 on three goals of the tabletop.

    python benchmarks/tabletop_embeddings.py --out runs/embeddings --seeds 0 1 [--markdown FILE.md]

Each row is ``clframe fit experiment=tabletop/goal3_embeddings stream.task_input=<row> seed=N`` (see
grid.py for what is run and kept). With ``--files bert.npz clip.npz``, made by
``scripts/make_language_vectors.py``, there is a row for each file, and one for its "Task 1",
"Task 2", ..., which LIBERO calls one-hot.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import grid
import robot_grid
import tabletop

METHODS = ("one_hot", "task_id", "language", "sentence", "none")
MEANING = {
    "one_hot": "the task's number, an input for each",
    "task_id": '"Task 1", ..., by words',
    "language": "the instruction, by words",
    "sentence": "the instruction, by WordLlama",
    "none": "nothing",
}
CELL = "goal3_"
EXPERIMENT = "experiment=tabletop/goal3_embeddings"


def rows(methods: list[str], files: list[Path]) -> grid.Cells:
    """The settings of each row.

    >>> rows(["one_hot"], [Path("bert.npz")])["goal3_bert"][1:]
    ['stream.task_input=file', 'stream.language_file=bert.npz']
    """
    cells = {f"{CELL}{name}": [EXPERIMENT, f"stream.task_input={name}"] for name in methods}
    for file in files:
        read = f"stream.language_file={file}"
        cells[f"{CELL}{file.stem}"] = [EXPERIMENT, "stream.task_input=file", read]
        cells[f"{CELL}{file.stem}_task_id"] = [EXPERIMENT, "stream.task_input=task_id", read]
    return cells


def table(found: grid.Found) -> str:
    """All rows that have values."""
    lines = [
        "| task_input | the policy is given | seeds | FWT | NBT | AUC | final success |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for cell, runs in found.items():
        name = cell.removeprefix(CELL)
        judged = [tabletop.numbers(run) for run in runs.values()]
        cells = [
            grid.mean_and_error([one[key] for one in judged])
            for key in (*tabletop.COLUMNS, "final")
        ]
        known = MEANING.get(name, "vectors of a file")
        lines.append(f"| {name} | {known} | {len(runs)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def page(found: grid.Found, command: str, numbers_file: str) -> str:
    """The results page."""
    run = next(iter(next(iter(found.values())).values()))
    return f"""# Tabletop: how a policy receives its task

`{command}`, {datetime.date.today().isoformat()}: {run["source"]}.

`experiment=tabletop/goal3_embeddings`, which is LIBERO's Table 3 (Liu et al., 2023) in a size for a
CPU: experience replay on three tasks of the goal suite, a perceptron that is given the state and a
vector of the task, one head for all; the current task is measured before learning and every 20 of
40 epochs by 10 rollouts of at most 120 steps, the best of these points is kept. LIBERO compares
BERT, CLIP, GPT-2 and "Task i" with ResNet-T, which need weights that were not at hand; with them,
`scripts/make_language_vectors.py` and `--files bert.npz ...` add their rows. Tasks:
{", ".join(run["columns"]).replace("_", " ")}. Mean ± standard error over seeds.

{table(found)}

*FWT*: success while a task is learned, held at its best; *NBT*: best success minus success after
later tasks; *AUC*: success from learning to the end. The values of each run are in
`{numbers_file}`.
"""


def main() -> None:
    """Run what is missing and print the table."""
    parser = robot_grid.parser(__doc__, "runs/embeddings", METHODS)
    parser.add_argument("--files", nargs="*", type=Path, default=[], help="language vectors, .npz")
    arguments = parser.parse_args()
    cells = rows(arguments.methods, arguments.files)
    found = robot_grid.run(cells, arguments, tabletop.measure)
    robot_grid.show(found, arguments, table, page, __file__)


if __name__ == "__main__":
    main()
