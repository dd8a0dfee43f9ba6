"""``clframe eval RUN``: measure the final model of a run on every task again."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.cli.parser import Parser
from clframe.errors import DataError, SettingError
from clframe.utils.console import columns, matrix_table, print_lines, print_out, warn_user
from clframe.worlds.perturbation import Perturbation

if TYPE_CHECKING:
    from clframe.core.stream import Stream


def parser() -> Parser:
    """Return the parser of the command."""
    parser = Parser(
        "eval",
        "Measure the final model of a run on every task again, next to the recorded row.",
        [
            (
                "clframe eval runs/split_mnist/ewc/20250101-120000-s0",
                "the last row, measured again",
            ),
            ("clframe eval RUN --perturb start=0.5 --perturb noise=1", "robot tasks, perturbed"),
        ],
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    parser.add_plugin_path()
    parser.add_argument(
        "--perturb",
        action="append",
        default=[],
        metavar="AXIS=LEVEL",
        help="also under this perturbation, as in camera=0.5; may be given several times",
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Measure the last row of the matrix again and print it next to the recorded one."""
    arguments = parser().parse(argv)
    folder = arguments.run
    perturbations = [Perturbation.parse(text) for text in arguments.perturb]
    from clframe.api import load_learner
    from clframe.core.matrix import AccuracyMatrix
    from clframe.run import add_row, measure

    learner, state = load_learner(folder, plugin_path=arguments.plugin_path)
    changed = _check_data(folder, learner.stream)
    streams = [_under(learner.stream, perturbation) for perturbation in perturbations]
    matrix, fresh = state.matrix, AccuracyMatrix(state.matrix.columns)
    add_row(fresh, "now, other test data" if changed else "now", measure(learner))
    for perturbation, stream in zip(perturbations, streams, strict=True):
        learner.set_stream(stream)
        add_row(fresh, f"now, {perturbation}", measure(learner))
    recorded = matrix.to_json()
    rows = [f"recorded ({recorded['rows'][-1]})", *fresh.rows]
    values = [recorded["values"][-1], *fresh.cells]
    terminal = sys.stdout.isatty()
    print_lines(matrix_table(rows, matrix.columns, values, width=columns() if terminal else None))
    if values[0] != values[1] and not changed:
        print_out("the two differ: data, code or hardware changed since the run")
    if not terminal:  # for programs
        note = {"other_test_data": True} if changed else {}
        print_out(json.dumps({"columns": matrix.columns, "values": values[1], **note}))
    return 0


def _check_data(folder: Path, stream: Stream) -> bool:
    """Warn about test data that has changed since the run.

    Raises:
        DataError: The run was trained on samples that it would now be tested on.
    """
    from clframe.data.identify import ids_of
    from clframe.runs.data_record import listed, read_record

    record = read_record(folder)
    tasks = [task for task in stream.tasks if task.load is not None]
    if record is None:
        if tasks and ids_of(tasks[0].data) is not None:
            warn_user(
                f"run '{folder}' has no record of its data, so test samples may be among those "
                "that it was trained on"
            )
        return False
    new = [task.name for task in tasks if task.name not in record.tasks]
    if record.own_data and new:
        warn_user(f"not measured, because the run has no such tasks: {listed(new)}")
    changes = record.changes([], tasks)
    if not changes:
        return False
    for name, (n, total) in record.trained_on(tasks).items():
        raise DataError(
            f"the data of run '{folder}' has changed: the run was trained on {n:,} of {total:,} "
            f"test samples of task '{name}'. Put the old data back, or test on new samples only"
        )
    warn_user(f"these are not the run's test samples: {listed(changes)}")
    return True


def _under(stream: Stream, perturbation: Perturbation) -> Stream:
    """Return the stream with its tasks perturbed."""
    from clframe.robot.stream import ImitationStream

    if not isinstance(stream, ImitationStream):
        raise SettingError(f"--perturb is only for streams of robot tasks, not for '{stream.name}'")
    return stream.under(perturbation)
