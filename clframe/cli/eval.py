"""``clframe eval RUN``: measure the final model of a run on every task again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from clframe.errors import SettingError
from clframe.utils.console import matrix_table, say


def main(words: Sequence[str]) -> int:
    """Print the last row of the matrix, measured anew, beside the recorded one."""
    if len(words) != 1:
        raise SettingError("clframe eval takes one run folder")
    from clframe.api import load_learner
    from clframe.core.matrix import AccuracyMatrix
    from clframe.run import add_row, measure

    folder = Path(words[0])
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
