"""Cells of tables compared with published ones: the measured and published values, the band.

A benchmark describes its table once, as a :class:`Table`: what each cell runs and what is published
for it. From that and the stored values of each seed come the table as Markdown, the flags, and what
``results_pages.py`` and ``published.py`` do with all tables together.

The band of a cell is two standard deviations of a single published seed, and at least 1 point: a
mean of few seeds, or a single new seed, that lies outside of it calls for an explanation.
"""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grid

WIDTH = 118
"""Of the lines of a page."""

MNIST_NEEDED = "holds no MNIST/raw: the published numbers need full MNIST"


@dataclass(frozen=True)
class Published:
    """A published mean in per cent.

    Args:
        mean: The value.
        error: Its standard error; None where the source gives none.
        seeds: How many runs it is the mean of.
        least: The least half-width of its band; more than 1 for values read off a figure.
    """

    mean: float
    error: float | None = None
    seeds: int = 1
    least: float = 1.0

    @property
    def band(self) -> float:
        """How far from the mean a value may be.

        >>> Published(98.0, 0.5, 16).band, Published(98.0, 0.01, 16).band
        (4.0, 1.0)
        """
        deviation = 0.0 if self.error is None else self.error * math.sqrt(self.seeds)
        return max(self.least, 2.0 * deviation)

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if self.error is None else f" ± {self.error:.2f}")


def of_deviation(mean: float, deviation: float, seeds: int) -> Published:
    """A published mean whose ± is the standard deviation of its runs."""
    return Published(mean, deviation / math.sqrt(seeds), seeds)


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Args:
        labels: What it is called in each of the table's columns, such as method and scenario.
        settings: What ``clframe fit`` is given to run it.
        published: The published value; None if there is none.
        note: Why its value is out of the band, if it is.
    """

    labels: tuple[str, ...]
    settings: tuple[str, ...]
    published: Published | None = None
    note: str = ""

    @property
    def name(self) -> str:
        """The cell's key among stored values, and its folder."""
        return "_".join(self.labels)


@dataclass(frozen=True)
class Table:
    """A published table and what clframe runs for it.

    Args:
        name: Of its page and of the file with its values in ``docs/results``.
        title: The page's heading.
        columns: What the labels of a cell stand for.
        cells: All of them, in the order of the page.
        text: Text before the table.
        remarks: Text after the table.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    cells: tuple[Cell, ...]
    text: str
    remarks: str = ""
    by_name: Mapping[str, Cell] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {cell.name: cell for cell in self.cells})


def final_accuracy(results: dict[str, Any]) -> float:
    """Mean of the last row of the matrix, in per cent."""
    last: list[float] = results["matrix"]["values"][-1]
    return round(100.0 * statistics.mean(last), 4)


def is_outside(value: float, published: Published) -> bool:
    """Whether a value is out of the published one's band."""
    return abs(value - published.mean) > published.band


def values_of(found: grid.Found, cell: Cell) -> list[float]:
    """The values of a cell's seeds."""
    return list(found.get(cell.name, {}).values())


def outside(table: Table, found: grid.Found) -> list[Cell]:
    """The cells whose mean is out of its band."""
    return [
        cell
        for cell in table.cells
        if (values := values_of(found, cell))
        and cell.published is not None
        and is_outside(statistics.mean(values), cell.published)
    ]


def beside_published(table: Table, found: grid.Found) -> list[Cell]:
    """The cells that have both a value of ours and a published one."""
    return [c for c in table.cells if c.published is not None and values_of(found, c)]


def row(cell: Cell, values: Sequence[float]) -> str:
    """A cell as a row of the table."""
    mean = statistics.mean(values)
    ours = f"{mean:.2f}"
    if len(values) > 1:
        ours += f" ± {statistics.stdev(values) / math.sqrt(len(values)):.2f}"
    entries = [*cell.labels, ours, str(len(values))]
    if cell.published is None:
        entries += ["-", "-", "-", "-", ""]
    else:
        flag = "outside" if is_outside(mean, cell.published) else ""
        difference = f"{mean - cell.published.mean:+.2f}"
        band = f"±{cell.published.band:.1f}"
        entries += [str(cell.published), str(cell.published.seeds), difference, band, flag]
    return "| " + " | ".join(entries) + " |"


def markdown(table: Table, found: grid.Found) -> str:
    """Return all cells with values, next to the published ones, and why some are out of band."""
    head = [*table.columns, "clframe", "seeds", "published", "seeds", "difference", "band", ""]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += [row(cell, values) for cell in table.cells if (values := values_of(found, cell))]
    compared = beside_published(table, found)
    all_published = [cell for cell in table.cells if cell.published is not None]
    flagged = outside(table, found)
    summary = (
        f"{len(compared)} of {len(all_published)} published cells have been run; "
        f"outside of their band: {len(flagged)}."
    )
    parts = ["\n".join(lines), summary]
    if flagged:
        said = [
            textwrap.fill(
                f"- {', '.join(cell.labels)}: {cell.note or 'the cause is not known.'}",
                WIDTH,
                subsequent_indent="  ",
                break_on_hyphens=False,
            )
            for cell in flagged
        ]
        parts.append("\n".join(said))
    return "\n\n".join(parts)


def page(table: Table, found: grid.Found) -> str:
    """The table's page in ``docs/results``."""
    parts = [f"# {table.title}", table.text.strip(), markdown(table, found)]
    origin = (
        f"The values of each seed are in `{table.name}.json`; `--known "
        f"docs/results/{table.name}.json` adds seeds or cells to them without running them again. "
        "`python benchmarks/results_pages.py` makes this page from them."
    )
    parts.append(textwrap.fill(origin, WIDTH, break_on_hyphens=False))
    if table.remarks:
        parts.append(table.remarks.strip())
    return "\n\n".join(parts) + "\n"


def _plural(column: str) -> str:
    """The name of a column's option.

    >>> _plural("method"), _plural("memory")
    ('methods', 'memories')
    """
    return f"{column[:-1]}ies" if column.endswith("y") else f"{column}s"


def main(table: Table, description: str | None, script: str) -> None:
    """Run what is missing of a table and print it: the command line of a benchmark."""
    parser = grid.parser(description, f"runs/{table.name}")
    parser.add_argument("--data-dir", type=Path, required=True)
    for number, column in enumerate(table.columns):
        choices = list(dict.fromkeys(cell.labels[number] for cell in table.cells))
        parser.add_argument(f"--{_plural(column)}", nargs="+", default=choices, choices=choices)
    arguments = parser.parse_args()
    if not (arguments.data_dir / "MNIST" / "raw").is_dir():
        parser.error(f"{arguments.data_dir} {MNIST_NEEDED}")
    wanted = [set(getattr(arguments, _plural(column))) for column in table.columns]
    cells = {
        cell.name: list(cell.settings)
        for cell in table.cells
        if all(label in some for label, some in zip(cell.labels, wanted, strict=True))
    }
    known = grid.read_known(arguments.known)
    extra = [f"data_dir={arguments.data_dir}", *arguments.set]
    grid.run_all(cells, arguments.seeds, known, arguments.out, arguments.jobs, extra)
    found = grid.collect(arguments.out, known, final_accuracy)
    text = markdown(table, found)
    grid.write(arguments.out, found, text, Path(script).name)
    print("\n" + text)
