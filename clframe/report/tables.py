"""Comparison tables as text for a terminal, as Markdown and as JSON; all formats by name."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from clframe.report.compare import ALPHA, Cell, Group, Table
from clframe.report.metric_formats import format_value
from clframe.report.table_files import as_csv, as_latex
from clframe.utils.console import printable

_ERROR_LEGEND = "± standard error over n seeds."
_BEST_LEGEND = (
    "* best mean; = not significantly worse than the best "
    f"(Welch's two-tailed t-test, p >= {ALPHA})."
)
_LOWER = " (low)"
_LOWER_LEGEND = "(low) lower is better; higher is better elsewhere."
_NEITHER = " (-)"
_NEITHER_LEGEND = "(-) describes a run; neither is better."
_SINGLE_LEGEND = "n=1: a single seed has no standard error and allows no test."


def heading(table: Table) -> str:
    """Return the stream and scenario of a table."""
    return f"{table.stream}, scenario {table.scenario}"


def cell_text(cell: Cell, group: Group) -> str:
    """Return mean and standard error, and the number of seeds if it is one or not the group's."""
    if cell.summary is None:
        return "-"
    mean, error, n = cell.summary.mean, cell.summary.standard_error, cell.summary.n
    text = format_value(mean)
    if error is not None:
        text += f" ± {_error_text(error)}"
    return f"{text} (n={n})" if n == 1 or n != len(group.runs) else text


def _error_text(error: float) -> str:
    """Return a standard error with the decimals of its mean."""
    return "<0.0001" if 0 < error < 0.5e-4 else format_value(max(error, 0.0001) if error else 0.0)


def metric_heading(table: Table, metric: str) -> str:
    """Return the metric's name with its unit, marked if lower is better or neither is."""
    unit = table.units.get(metric)
    better = table.better.get(metric, True)
    mark = "" if better else _LOWER if better is False else _NEITHER
    return metric + (f" [{unit}]" if unit else "") + mark


def legend(tables: Sequence[Table]) -> list[str]:
    """Return the sentences that explain the marks used in the tables."""
    lines = [_ERROR_LEGEND]
    if any(len(table.groups) > 1 for table in tables):
        lines.insert(0, _BEST_LEGEND)
    marks = [better for table in tables for better in table.better.values()]
    if False in marks:
        lines.append(_LOWER_LEGEND)
    if None in marks:
        lines.append(_NEITHER_LEGEND)
    if any(len(group.runs) == 1 for table in tables for group in table.groups):
        lines.append(_SINGLE_LEGEND)
    return lines


def as_text(tables: Sequence[Table], width: int | None = None) -> str:
    """Return tables for a terminal; tables wider than `width` characters continue below."""
    blocks = []
    for table in tables:
        lines = [printable(heading(table)), *_text_rows(table, width)]
        lines += [printable(f"note: {note}") for note in table.notes]
        blocks.append("\n".join(lines))
    return "\n\n".join([*blocks, "\n".join(map(printable, legend(tables)))]) + "\n"


def _text_rows(table: Table, width: int | None) -> list[str]:
    first = [["strategy", *(group.label for group in table.groups)]]
    first.append(["n", *(str(len(group.runs)) for group in table.groups)])
    columns = []
    for metric in table.metrics:
        texts = []
        for cell, group in zip(table.cells[metric], table.groups, strict=True):
            mark = "*" if cell.best else "=" if cell.not_worse else " "
            texts.append(f"{cell_text(cell, group)} {mark}")
        columns.append([metric_heading(table, metric), *texts])
    columns += [[name, *texts] for name, texts in table.differences.items()]
    lines: list[str] = []
    fixed = sum(max(map(len, column)) + 2 for column in first)
    while columns:
        taken, used = 1, fixed + max(map(len, columns[0]))
        while taken < len(columns):
            used += 2 + max(map(len, columns[taken]))
            if width is not None and used > width:
                break
            taken += 1
        lines += align([*first, *columns[:taken]])
        columns = columns[taken:]
        if columns:
            lines.append("")
    return lines or align(first)


def align(columns: Sequence[Sequence[str]]) -> list[str]:
    """Return columns of texts as lines, with a rule below the first."""
    columns = [[printable(text) for text in column] for column in columns]
    widths = [max(map(len, column)) for column in columns]
    rows = [
        "  ".join(text.ljust(wide) for text, wide in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]
    return [rows[0], "  ".join("-" * wide for wide in widths), *rows[1:]]


def as_markdown(tables: Sequence[Table]) -> str:
    """Return Markdown tables; the best and all not significantly worse are bold, as in LIBERO's."""
    blocks = []
    for table in tables:
        heads = ["strategy", "n", *(metric_heading(table, metric) for metric in table.metrics)]
        heads += table.differences
        lines = [f"### {plain(heading(table))}", ""]
        lines.append("| " + " | ".join(map(plain, heads)) + " |")
        lines.append("| --- | ---: |" + " --- |" * (len(heads) - 2))
        for i, group in enumerate(table.groups):
            cells = [plain(group.label), str(len(group.runs))]
            for metric in table.metrics:
                cell = table.cells[metric][i]
                text = cell_text(cell, group)
                if cell.best or cell.not_worse:
                    text = f"**{text}**" + (" (best)" if cell.best else "")
                cells.append(text)
            cells += [plain(texts[i]) for texts in table.differences.values()]
            lines.append("| " + " | ".join(cells) + " |")
        lines += [f"\nNote: {plain(note)}" for note in table.notes]
        blocks.append("\n".join(lines))
    bold = (
        f"Bold: the best mean, and what Welch's two-tailed t-test (p >= {ALPHA}) does not tell "
        "apart from it."
    )
    explained = [bold if line == _BEST_LEGEND else line for line in legend(tables)]
    return "\n\n".join([*blocks, " ".join(explained)]) + "\n"


def plain(text: str) -> str:
    """Return text without meaning to Markdown or HTML."""
    for character in "\\`*_{}[]<>#|~":
        text = text.replace(character, "\\" + character)
    return " ".join(text.split())


def as_json(tables: Sequence[Table]) -> str:
    """Return everything in the tables, unrounded; null if there is no test."""
    content = {"schema": 1, "alpha": ALPHA, "tables": [_table_object(table) for table in tables]}
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _table_object(table: Table) -> dict[str, Any]:
    groups = [
        {
            "strategy": group.label,
            "n": len(group.runs),
            "seeds": [run.result.seed for run in group.runs],
            "runs": [str(run.folder) for run in group.runs],
            "differences": {name: texts[i] for name, texts in table.differences.items()},
        }
        for i, group in enumerate(table.groups)
    ]
    metrics = [
        {
            "metric": metric,
            "higher_is_better": table.better[metric],
            **({"unit": table.units[metric]} if table.units[metric] else {}),
            "values": [
                _cell_object(group.label, cell)
                for group, cell in zip(table.groups, table.cells[metric], strict=True)
            ],
        }
        for metric in table.metrics
    ]
    return {
        "stream": table.stream,
        "scenario": table.scenario,
        "strategies": groups,
        "metrics": metrics,
        "notes": list(table.notes),
    }


def _cell_object(name: str, cell: Cell) -> dict[str, Any]:
    summary, test = cell.summary, cell.test
    return {
        "strategy": name,
        "n": 0 if summary is None else summary.n,
        "mean": None if summary is None else summary.mean,
        "standard_error": None if summary is None else summary.standard_error,
        "best": cell.best,
        "not_significantly_worse": cell.best or cell.not_worse if summary is not None else None,
        "t": test.t if test is not None and math.isfinite(test.t) else None,
        "degrees_of_freedom": None if test is None else test.degrees_of_freedom,
        "p_value": None if test is None else test.p_value,
    }


FORMATS: dict[str, Callable[[Sequence[Table]], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "latex": as_latex,
    "csv": as_csv,
    "json": as_json,
}
