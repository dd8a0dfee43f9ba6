"""``clframe eval RUN``: measure the final model of a run on every task again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from clframe.errors import RunFolderError, SettingError
from clframe.utils.console import matrix_table, say


def main(words: Sequence[str]) -> int:
    """Print the last row of the matrix, measured anew, beside the recorded one."""
    if len(words) != 1:
        raise SettingError("clframe eval takes one run folder")
    from clframe.api import prepare_run
    from clframe.cli.fit import _arguments_of
    from clframe.core.matrix import AccuracyMatrix
    from clframe.core.results import Timing
    from clframe.run import evaluate, set_up
    from clframe.training.engine import ONE_PROCESS

    folder = Path(words[0])
    arguments = _arguments_of(folder)
    arguments.update(logger=None, progress=False)
    arguments["trainer"] = {**arguments["trainer"], **ONE_PROCESS}
    prepared = prepare_run(**arguments, only_look=True)
    if prepared.folder is None or not prepared.folder.checkpoints.numbers():
        raise RunFolderError(f"run '{folder}' has no checkpoint to evaluate")
    matrix, _ = set_up(prepared.learner, prepared.stream, prepared.folder)
    fresh = AccuracyMatrix(matrix.columns)
    evaluate(prepared.learner, "now", fresh, Timing(), record=False)
    recorded = matrix.to_json()
    rows = [f"recorded ({recorded['rows'][-1]})", "now"]
    values = [recorded["values"][-1], fresh.to_json()["values"][0]]
    say(matrix_table(rows, matrix.columns, values))
    if values[0] != values[1]:
        say("the two differ: data, code or hardware changed since the run")
    say(json.dumps({"columns": matrix.columns, "values": values[1]}))
    return 0
