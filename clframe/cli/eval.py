"""``clframe eval RUN``: measure the final model of a run on every task again."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.cli.parser import Parser
from clframe.errors import SettingError
from clframe.robot.perturbation import Perturbation
from clframe.utils.console import columns, matrix_table, say, say_lines

if TYPE_CHECKING:
    from clframe.core.stream import Stream


def parser() -> Parser:
    """The arguments of the command."""
    parser = Parser(
        "eval",
        "Measure the final model of a run on every task again, beside what was recorded.",
        [
            ("clframe eval runs/split_mnist/ewc/20250101-120000-s0", "the last row, measured anew"),
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


def main(words: Sequence[str]) -> int:
    """Print the last row of the matrix, measured anew, beside the recorded one."""
    arguments = parser().parse(words)
    folder = arguments.run
    perturbations = [Perturbation.parse(text) for text in arguments.perturb]
    from clframe.api import load_learner
    from clframe.core.matrix import AccuracyMatrix
    from clframe.run import add_row, measure

    learner, state = load_learner(folder, plugin_path=arguments.plugin_path)
    streams = [_under(learner.stream, perturbation) for perturbation in perturbations]
    matrix, fresh = state.matrix, AccuracyMatrix(state.matrix.columns)
    add_row(fresh, "now", measure(learner))
    for perturbation, stream in zip(perturbations, streams, strict=True):
        learner.stream = stream
        add_row(fresh, f"now, {perturbation}", measure(learner))
    recorded = matrix.to_json()
    rows = [f"recorded ({recorded['rows'][-1]})", *fresh.rows]
    values = [recorded["values"][-1], *fresh.cells]
    terminal = sys.stdout.isatty()
    say_lines(matrix_table(rows, matrix.columns, values, width=columns() if terminal else None))
    if values[0] != values[1]:
        say("the two differ: data, code or hardware changed since the run")
    if not terminal:  # for programs
        say(json.dumps({"columns": matrix.columns, "values": values[1]}))
    return 0


def _under(stream: Stream, perturbation: Perturbation) -> Stream:
    """The stream with its tasks perturbed."""
    from clframe.robot.stream import ImitationStream

    if not isinstance(stream, ImitationStream):
        raise SettingError(f"--perturb is for streams of robot tasks, not for '{stream.name}'")
    return stream.under(perturbation)
