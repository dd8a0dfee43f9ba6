"""``clframe eval RUN``: measure the final model of a run on every task again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from clframe.cli.parser import Parser
from clframe.utils.console import matrix_table, say


def parser() -> Parser:
    """The arguments of the command."""
    parser = Parser(
        "eval",
        "Measure the final model of a run on every task again, beside what was recorded.",
        [("clframe eval runs/split_mnist/ewc/20250101-120000-s0", "the last row, measured anew")],
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    return parser


def main(words: Sequence[str]) -> int:
    """Print the last row of the matrix, measured anew, beside the recorded one."""
    folder = parser().parse(words).run
    from clframe.api import load_learner
    from clframe.core.matrix import AccuracyMatrix
    from clframe.run import add_row, measure

    learner, state = load_learner(folder)
    matrix, fresh = state.matrix, AccuracyMatrix(state.matrix.columns)
    add_row(fresh, "now", measure(learner))
    recorded = matrix.to_json()
    rows = [f"recorded ({recorded['rows'][-1]})", "now"]
    values = [recorded["values"][-1], fresh.to_json()["values"][0]]
    say(matrix_table(rows, matrix.columns, values))
    if values[0] != values[1]:
        say("the two differ: data, code or hardware changed since the run")
    say(json.dumps({"columns": matrix.columns, "values": values[1]}))
    return 0
