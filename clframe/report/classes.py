"""The accuracy of each class at the end of a run whose classes differ in size."""

from __future__ import annotations

from collections.abc import Iterator

from clframe.core.results import Result
from clframe.evaluation.class_sizes import MEASURED, class_line
from clframe.report.metric_formats import format_value
from clframe.report.page_blocks import Block, Cell, Head, Notes, Table

_MOST = 50
"""Classes that are listed, the worst first."""


def class_blocks(result: Result) -> Iterator[Block]:
    """Yield the worst class and a table of all; nothing if classes are alike in size."""
    line = class_line([result])
    if line is None:
        return
    found = result.measured[MEASURED]
    columns = ("tested", "right", *(["learned"] if found.get("learned") else []))
    if not all(type(n) is int for name in columns for n in found[name]):
        return  # made elsewhere, in another form
    yield Notes([f"Classes differ in size. {line[0].upper()}{line[1:]}."])
    learned = found.get("learned") or [None] * len(found["names"])
    rows = zip(found["names"], learned, found["tested"], found["right"], strict=False)
    ordered = sorted(rows, key=lambda row: row[3] / max(row[2], 1))
    yield Table(
        "Classes",
        [*map(Head, ("class", "training samples", "test samples", "right", "accuracy"))],
        [
            (
                Head(str(name)),
                [
                    *(Cell("-" if n is None else f"{n:,}") for n in (of_train, of_test, right)),
                    Cell(format_value(right / max(of_test, 1))),
                ],
            )
            for name, of_train, of_test, right in ordered[:_MOST]
        ],
        "After the last experience, all tasks together; the worst class first.",
    )
