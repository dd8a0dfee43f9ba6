"""Comparison tables for papers and programs: LaTeX with booktabs, and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from clframe.report.compare import ALPHA, Cell, Group, Table, values_of
from clframe.report.differences import MEMORY
from clframe.report.metric_formats import format_value
from clframe.utils.statistics import Summary, summarize

CSV_HEADS = (
    *("stream", "scenario", "strategy", "metric", "unit", "better", "n"),
    *("mean", "standard_error", "low_95", "high_95"),
    *("best", "not_significantly_worse", "t", "degrees_of_freedom", "p_value"),
    *("memory", "other_settings"),
)
_SPECIAL = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
_ARROWS = {True: r"$\uparrow$", False: r"$\downarrow$", None: ""}


def as_latex(tables: Sequence[Table]) -> str:
    r"""Return tables for a paper, for the package booktabs.

    The best and all that are not significantly worse are bold, as in LIBERO's tables; an arrow
    shows which way is better.
    """
    blocks = [_latex_table(table) for table in tables]
    return "% \\usepackage{booktabs}\n" + "\n\n".join(blocks) + "\n"


def _latex_table(table: Table) -> str:
    heads = ["Strategy"]
    for metric in table.metrics:
        unit = f" [{table.units[metric]}]" if table.units.get(metric) else ""
        arrow = _ARROWS[table.better.get(metric, True)]
        heads.append(f"{escape(metric + unit)} {arrow}".rstrip())
    heads += [escape(name) for name in table.differences]
    lines = []
    for i, group in enumerate(table.groups):
        cells = [_latex_cell(table.cells[metric][i], group) for metric in table.metrics]
        cells += [escape(texts[i]) for texts in table.differences.values()]
        lines.append(" & ".join([escape(group.label), *cells]) + r" \\")
    counts = sorted({len(group.runs) for group in table.groups})
    seeds = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    caption = (
        f"{escape(table.stream)}, scenario {escape(table.scenario)}: mean $\\pm$ standard error "
        f"over {seeds} seed{'' if seeds == '1' else 's'}."
    )
    if len(table.groups) > 1:
        caption += (
            " Bold: the best mean, and what Welch's two-tailed $t$-test "
            f"($p \\geq {ALPHA}$) does not tell apart from it."
        )
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            f"  \\caption{{{caption}}}",
            f"  \\begin{{tabular}}{{l{'c' * len(table.metrics)}{'l' * len(table.differences)}}}",
            r"    \toprule",
            f"    {' & '.join(heads)} \\\\",
            r"    \midrule",
            *(f"    {line}" for line in lines),
            r"    \bottomrule",
            r"  \end{tabular}",
            *(f"  % {' '.join(note.split())}" for note in table.notes),
            r"\end{table}",
        ]
    )


def _latex_cell(cell: Cell, group: Group) -> str:
    summary = cell.summary
    if summary is None:
        return "--"
    mean = format_value(summary.mean)
    number = rf"\mathbf{{{mean}}}" if cell.best or cell.not_worse else mean
    error = summary.standard_error
    spread = "" if error is None else rf" \pm {format_value(error)}"
    count = "" if summary.n == len(group.runs) else rf" \;(n={summary.n})"
    return f"${number}{spread}{count}$"


def escape(text: str) -> str:
    r"""Return text without meaning to LaTeX.

    >>> escape("split_mnist & 5 %")
    'split\\_mnist \\& 5 \\%'
    """
    return "".join(_SPECIAL.get(character, character) for character in " ".join(text.split()))


def as_csv(tables: Sequence[Table]) -> str:
    """Return a line per strategy and metric, unrounded; a missing number is an empty cell."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_HEADS)
    for table in tables:
        for metric in table.metrics:
            better = {True: "higher", False: "lower", None: ""}[table.better[metric]]
            for i, (group, cell) in enumerate(zip(table.groups, table.cells[metric], strict=True)):
                names = (table.stream, table.scenario, group.label, metric)
                facts = (table.units.get(metric, ""), better)
                other = {name: texts[i] for name, texts in table.differences.items()}
                memory = other.pop(MEMORY, "")
                text = " ".join(f"{name}={value}" for name, value in other.items())
                numbers = _numbers(cell, group, metric)
                writer.writerow([*map(_as_text, names), *facts, *numbers, memory, _as_text(text)])
    return stream.getvalue()


def _as_text(name: str) -> str:
    """Return a name that no spreadsheet treats as a formula."""
    return f"'{name}" if name[:1] in ("=", "+", "-", "@") else name


def _numbers(cell: Cell, group: Group, metric: str) -> list[object]:
    values = [x for run in group.runs if (x := values_of(run).get(metric)) is not None]
    if not values:
        return [0, *[""] * 9]
    summary: Summary = summarize(values, confidence=0.95)
    test = cell.test
    tested = ("", "", "") if test is None else (test.t, test.degrees_of_freedom, test.p_value)
    numbers = (summary.standard_error, summary.low, summary.high)
    return [
        summary.n,
        summary.mean,
        *("" if number is None else number for number in numbers),
        int(cell.best),
        int(cell.best or cell.not_worse),
        *tested,
    ]
