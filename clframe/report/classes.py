"""The accuracy of each class at the end of a run whose classes differ in size."""

from __future__ import annotations

from collections.abc import Iterator

from clframe.core.results import Result
from clframe.evaluation.class_sizes import MEASURED, class_line
from clframe.report.metric_formats import format_value
from clframe.report.page_blocks import Block, Cell, Head, Notes, Table

_MOST = 50
"""Maximum number of listed classes, the worst first."""


def class_blocks(result: Result) -> Iterator[Block]:
    """Yield the worst class and a table of all; nothing if all classes have the same size."""
    line = class_line([result])
    if line is None:
        return
    table = result.measured[MEASURED]
    columns = ("tested", "right", *(["learned"] if table.get("learned") else []))
    if not all(type(n) is int for name in columns for n in table[name]):
        return  # The file was made elsewhere, in another form.
    yield Notes([f"Classes differ in size. {line[0].upper()}{line[1:]}."])
    learned = table.get("learned") or [None] * len(table["names"])
    rows = zip(table["names"], learned, table["tested"], table["right"], strict=False)
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
