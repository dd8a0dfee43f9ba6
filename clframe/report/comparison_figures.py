"""Figures that compare strategies: on one stream, and over several."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from clframe.core.matrix import BEFORE, AccuracyMatrix, names_differ
from clframe.report import success
from clframe.report.charts import Line, metric_bars, seen_so_far
from clframe.report.compare import Group, Table
from clframe.report.figure_specs import Drawing
from clframe.report.page_blocks import Block, Figures
from clframe.report.spider import spider, spiders
from clframe.utils.statistics import Summary, summarize

_OPENLORIS = {
    "openloris.accuracy": "Accuracy",
    "openloris.bwt": "BWT",
    "openloris.fwt": "FWT",
    "openloris.overall": "Over-all",
}


def stream_figures(table: Table) -> Iterator[Drawing]:
    """Yield figures of the strategies of one stream and scenario."""
    names = [group.label for group in table.groups]
    lines = {group.label: _seen(group) for group in table.groups}
    known_lines = {name: line for name, line in lines.items() if line is not None}
    measure = table.groups[0].runs[0].result.matrix.measure
    if known_lines and max(len(line.means) for line in known_lines.values()) > 1:
        several = any(line.low is not None for line in known_lines.values())
        yield Drawing(
            "seen_so_far",
            lambda width: seen_so_far(known_lines, measure, width),
            f"mean {measure} on the tasks seen so far after each experience, of every strategy",
            f"Mean {measure} over the tasks learned so far, after each experience."
            + (" Bands: one standard error over seeds." if several else ""),
        )
    if len(names) < 2:
        return
    spokes = [name for name in table.metrics if name in _OPENLORIS]
    summaries = {name: [cell.summary for cell in table.cells[name]] for name in table.metrics}
    if len(spokes) >= 3:
        series = {
            name: {_OPENLORIS[metric]: _mean(summaries[metric][i]) for metric in spokes}
            for i, name in enumerate(names)
        }
        yield Drawing(
            "spider",
            lambda width: spider(series, width),
            f"OpenLORIS metrics of each strategy on {table.stream}",
            "The four metrics of OpenLORIS in percent; further out is better.",
        )
    if table.metrics:
        yield Drawing(
            "metrics",
            lambda width: metric_bars(names, summaries, width),
            f"metrics of each strategy on {table.stream}",
            "Mean over seeds; whiskers are one standard error.",
            wide=True,
            relaid=True,
        )
    yield from _success(table)


def _seen(group: Group) -> Line | None:
    """Return the mean over tasks seen so far after each experience, over the runs of a group."""
    lines = [_seen_of(run.result.matrix) for run in group.runs]
    if names_differ([run.result.matrix for run in group.runs]) or None in lines:
        return None
    columns = list(zip(*(line for line in lines if line is not None), strict=True))
    summaries = [None if any(map(math.isnan, c)) else summarize(c) for c in columns]
    means = [math.nan if s is None else s.mean for s in summaries]
    if len(lines) == 1:
        return Line(means)
    reach = [math.nan if s is None else s.standard_error or 0.0 for s in summaries]
    return Line(
        means,
        [m - r for m, r in zip(means, reach, strict=True)],
        [m + r for m, r in zip(means, reach, strict=True)],
    )


def _seen_of(matrix: AccuracyMatrix) -> list[float] | None:
    """Return it for one run; None if it is unknown which task an experience taught.

    With as many experiences as tasks, the i-th teaches the i-th. If tasks come back, all tasks
    count from the beginning.
    """
    rows = [c for name, c in zip(matrix.rows, matrix.cells, strict=True) if name != BEFORE]
    if not rows or not matrix.columns:
        return None
    alike = len(rows) == len(matrix.columns)
    means = []
    for i, row in enumerate(rows):
        values = [x for x in (row[: i + 1] if alike else row) if x is not None]
        full = len(values) == (i + 1 if alike else len(row))
        means.append(math.fsum(values) / len(values) if full else math.nan)
    return means


def _success(table: Table) -> Iterator[Drawing]:
    """Yield LIBERO's success curves of all strategies, of the first seed of each."""
    curves = {g.label: success.success_curves(g.runs[0].result) for g in table.groups}
    shapes = {tuple((c.task, len(c.later)) for c in tasks) for tasks in curves.values()}
    if len(shapes) == 1 and len(next(iter(shapes))) > 1:
        measure = table.groups[0].runs[0].result.matrix.measure
        yield Drawing(
            "success_of_methods",
            lambda width: success.methods_figure(curves, measure, width),
            f"{measure} of each task while it and later tasks are learned, of every strategy",
            "A panel per task: while it is learned (held at its best), then after each later one. "
            "The first seed of each strategy.",
            wide=True,
            relaid=True,
        )


def _mean(summary: Summary | None) -> float | None:
    return None if summary is None else summary.mean


# ---------------------------------------------------------------- all streams


def factors(tables: Sequence[Table]) -> Iterator[Block]:
    """Yield charts of methods over factors, if several streams have the same strategies.

    A spoke per stream, and, as in Fig. 5 of OpenLORIS-Object, a panel per stream (factor) with a
    spoke per metric.
    """
    metric = "openloris.accuracy"
    alike: dict[tuple[str, ...], list[Table]] = {}
    for table in tables:
        if metric in table.metrics:
            names = tuple(sorted(group.label for group in table.groups))
            alike.setdefault(names, []).append(table)
    names, usable = max(alike.items(), key=lambda item: len(item[1]), default=((), []))
    if len(usable) < 2 or len(names) < 2:
        return
    drawings = []
    over: dict[str, dict[str, float | None]] = {name: {} for name in names}
    panels: dict[str, dict[str, dict[str, float | None]]] = {}
    prefix = _shared_prefix([table.stream for table in usable])
    for table in usable:
        title = table.stream.removeprefix(prefix)
        if sum(other.stream == table.stream for other in usable) > 1:
            title = f"{title} ({table.scenario})"
        panels[title] = {name: {} for name in names}
        for i, group in enumerate(table.groups):
            over[group.label][title] = _mean(table.cells[metric][i].summary)
            panels[title][group.label] = {
                _OPENLORIS[openloris_name]: _mean(table.cells[openloris_name][i].summary)
                for openloris_name in _OPENLORIS
                if openloris_name in table.metrics
            }
    if len(usable) >= 3:
        drawings.append(
            Drawing(
                "streams",
                lambda width: spider(over, width),
                f"{metric} of each strategy on each stream",
                f"{metric} in percent, a spoke per stream; further out is better.",
            )
        )
    if all(len(values) >= 3 for series in panels.values() for values in series.values()):
        drawings.append(
            Drawing(
                "factors",
                lambda width: spiders(panels, width),
                "OpenLORIS metrics of each strategy, a panel per stream",
                "The four metrics of OpenLORIS in percent, a panel per stream (its Fig. 5).",
                wide=True,
                relaid=True,
            )
        )
    if drawings:
        yield Figures(drawings)


def _shared_prefix(names: Sequence[str]) -> str:
    """Return the common prefix of all names up to an underscore, which figures leave out."""
    alike = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    shared = "".join(letters[0] for letters in alike)
    return shared[: shared.rfind("_") + 1] if len(set(names)) > 1 else ""
