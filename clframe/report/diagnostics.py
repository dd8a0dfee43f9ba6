"""Problems of a run: what it lost, what it never learned, and its warnings."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from clframe.core.matrix import BEFORE, AccuracyMatrix
from clframe.report.page_blocks import Block, Cell, Head, Notes, Table, Text
from clframe.runs.reader import Run

_MOST = 8
_LEAST_DROP = 0.05
_LEAST_GAIN = 0.05


class Drop(NamedTuple):
    """A task whose result fell while another one was learned."""

    task: str
    while_learning: str
    before: float
    after: float


def largest_drops(matrix: AccuracyMatrix) -> list[Drop]:
    """Return falls of at least five points from one row to the next, the largest first."""
    rows = [(n, c) for n, c in zip(matrix.rows, matrix.cells, strict=True) if n != BEFORE]
    drops = []
    for (_, above), (name, below) in itertools.pairwise(rows):
        for task, old, new in zip(matrix.columns, above, below, strict=True):
            if old is not None and new is not None and old - new >= _LEAST_DROP:
                drops.append(Drop(task, name, old, new))
    return sorted(drops, key=lambda drop: (drop.after - drop.before, drop.task))


def hardly_learned(matrix: AccuracyMatrix) -> list[str]:
    """Return tasks that were never five points better than before training."""
    if not matrix.rows or matrix.rows[0] != BEFORE or len(matrix.rows) < 2:
        return []
    cells = matrix.cells
    tasks = []
    for j, task in enumerate(matrix.columns):
        start = cells[0][j]
        later = [value for row in cells[1:] if (value := row[j]) is not None]
        if start is not None and later and max(later) - start < _LEAST_GAIN and start < 0.95:
            tasks.append(task)
    return tasks


def troubles(run: Run) -> Iterator[Block]:
    """Yield the blocks of the section, which is never empty, so that no problem is visible too."""
    matrix = run.result.matrix
    sentences = list(run.notes)
    if sentences:
        yield Notes(sentences)
    flat = hardly_learned(matrix)
    if flat:
        yield Text(f"Hardly learned (never 5 points above the untrained model): {', '.join(flat)}.")
    drops = largest_drops(matrix)
    if drops:
        more = len(drops) - _MOST
        yield Table(
            "Largest falls",
            [Head("task"), Head("while learning"), Head("before"), Head("after"), Head("change")],
            [
                (
                    Head(drop.task),
                    [
                        Cell(drop.while_learning),
                        *(Cell(f"{100 * x:.1f} %") for x in (drop.before, drop.after)),
                        Cell(f"{100 * (drop.after - drop.before):.1f}"),
                    ],
                )
                for drop in drops[:_MOST]
            ],
            f"The largest falls of {matrix.measure} from one experience to the next"
            + (f"; {more} more of at least 5 points are not listed." if more > 0 else "."),
        )
    if not (sentences or flat or drops):
        yield Text(
            "Nothing: no warning was recorded, every task was learned, and none fell by 5 points "
            "from one experience to the next."
        )
