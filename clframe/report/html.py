"""One self-contained HTML page about a run, or about many runs grouped by stream and strategy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from clframe.core.matrix import BEFORE, AccuracyMatrix, names_differ
from clframe.core.results_file import leaves
from clframe.report import elements as el
from clframe.report import measured
from clframe.report.compare import Group, Table, compare
from clframe.report.figures import (
    accuracy_curves,
    learning_curves,
    loss_curves,
    matrix_heatmap,
    mean_matrix,
    metric_bars,
    spider,
)
from clframe.report.films import films
from clframe.report.names import (
    PER_EXPERIENCE,
    format_timing,
    format_value,
    formula,
    higher_is_better,
    sort_metrics,
    unit,
)
from clframe.report.settings import fit_command
from clframe.report.tables import cell_text, heading, legend, metric_heading
from clframe.report.tensor import perturbed_results, tensor_curves
from clframe.runs.reader import Epoch, Run
from clframe.utils.statistics import Summary

_CARDS = ("openloris.accuracy", "openloris.overall", "gem.acc", "gem.bwt", "libero.auc")
_PAGE, _HALF_PAGE = 7.6, 5.6  # inches of a figure alone, or sharing the width of the page
_MOST_PANELS = 20  # experiences shown while learning; more would be a wall of small figures
_MOST_SIDE_BY_SIDE = 10  # rows or columns of a matrix that can be read at half the width
_MATRIX_CAPTION = (
    "A row per learned experience, a column per task; hatched cells were not measured."
)


def report_html(runs: Sequence[Run], notes: Sequence[str] = (), by: Sequence[str] = ()) -> str:
    """The page about these runs.

    Args:
        runs: At least one run.
        notes: Sentences to put on top, such as which folders were left out.
        by: Settings that tell groups of runs apart besides the strategy.
    """
    if len(runs) == 1:
        run = runs[0]
        return el.page(f"{run.result.strategy} on {run.result.stream}", _run_page(run, notes))
    return el.page(f"clframe: {len(runs)} runs", _sweep_page(runs, notes, by))


def _run_page(run: Run, notes: Sequence[str]) -> Iterator[str]:
    result = run.result
    yield f"<h1>{el.text(result.strategy)} on {el.text(result.stream)}</h1>"
    yield el.facts(
        {
            "scenario": result.scenario,
            "seed": str(result.seed),
            **run.further,
            "run": run.folder.name,
        }
    )
    yield el.notes([*notes, *run.notes])
    headline = {name: run.metrics[name] for name in _CARDS if name in run.metrics}
    yield el.cards({name: format_value(value) for name, value in headline.items()})
    yield "<h2>Matrix</h2>"
    yield el.figure(
        matrix_heatmap(result.matrix), f"{result.matrix.measure} matrix", _MATRIX_CAPTION
    )
    yield el.details("The matrix as a table", _matrix_table(result.matrix))
    yield "<h2>Each task over the run</h2>"
    yield el.figure(
        accuracy_curves(result.matrix),
        f"{result.matrix.measure} of each task after each experience",
        "A line per task; a line that falls after its task was learned shows forgetting.",
    )
    yield from _tensor([run])
    if result.curves:
        shown = dict(list(result.curves.items())[:_MOST_PANELS])
        rest = len(result.curves) - len(shown)
        yield "<h2>While learning</h2>"
        yield el.figure(
            learning_curves(shown, result.matrix.columns, result.matrix.measure),
            f"{result.matrix.measure} while learning each experience",
            "A panel per experience, a line per task in the colors of the figure above."
            + (f" {rest} later experiences are not shown." if rest else ""),
        )
    yield from measured.sections(result)
    yield from films(run.folder, [row for row in result.matrix.rows if row != BEFORE])
    if run.epochs:
        yield "<h2>Training loss</h2>"
        yield el.figure(loss_curves({result.strategy: run.epochs}), "training loss per epoch")
    yield "<h2>Metrics</h2>"
    yield _metric_table(run)
    yield from _list_tables(run)
    yield "<h2>Time and environment</h2>"
    timing = {name: format_timing(name, value) for name, value in run.timing.items()}
    yield f'<div class="pair">{el.pairs("Time", timing)}'
    yield f"{el.pairs('Environment', _environment(run))}</div>"
    yield "<h2>Reproduce</h2>"
    yield _reproduce(run)


def _tensor(runs: Sequence[Run]) -> Iterator[str]:
    """Skill and robustness over the run, where tasks were perturbed; means over runs."""
    results = [run.result for run in runs]
    if perturbed_results(results):
        yield "<h3>Under perturbation</h3>"
        yield el.figure(
            tensor_curves(results),
            f"{results[0].matrix.measure} over the run, by axis and level of perturbation",
            "A line per level; level 0 is the skill as it was demonstrated. Where lines of higher "
            "levels fall before that one, robustness is forgotten first.",
        )


def _metric_table(run: Run) -> str:
    rows = []
    facts = run.result.metric_facts
    for name in sort_metrics(run.metrics):
        direction = {True: "higher", False: "lower", None: "-"}[higher_is_better(name, facts)]
        definition = f'<span class="muted">{el.text(formula(name, facts))}</span>'
        value = f"{format_value(run.metrics[name])} {el.text(unit(name, facts))}".rstrip()
        rows.append([el.code(name), value, direction, definition])
    if not rows:
        return '<p class="muted">The run has no metrics.</p>'
    caption = (
        "R[i, j]: result on task j after experience i; T: the last one; b: the row “before”. "
        "Papers give the same name to different formulas, so each name begins with its source."
    )
    return el.table(
        ["metric", "value", "better", "formula (each task learned once)"], rows, caption
    )


def _list_tables(run: Run) -> Iterator[str]:
    """Metrics that have a value per task, and those that have one per learned experience."""
    experiences = [row for row in run.result.matrix.rows if row != BEFORE]
    for title, names, per_experience in (
        ("Per task", run.result.matrix.columns, False),
        ("Per experience", experiences, True),
    ):
        rows = [
            [el.code(name), *map(format_value, values)]
            for name, values in run.result.lists().items()
            if name.startswith(PER_EXPERIENCE) == per_experience and len(values) == len(names)
        ]
        if rows:
            yield f"<h3>{title}</h3>" + el.table(["metric", *map(el.text, names)], rows)


def _matrix_table(matrix: AccuracyMatrix) -> str:
    rows = [
        [el.text(name), *map(format_value, values)]
        for name, values in zip(matrix.rows, matrix.cells, strict=True)
    ]
    return el.table(["after learning", *map(el.text, matrix.columns)], rows)


def _reproduce(run: Run) -> str:
    parts = [f"<pre>{el.text(fit_command(run))}</pre>"]
    if run.config is None:
        parts.append(
            el.notes(
                ["There is no config.yaml, so the command holds only what results.json tells."]
            )
        )
    else:
        parts.append(el.details("The whole configuration", f"<pre>{el.text(run.config)}</pre>"))
    return "".join(parts)


def _sweep_page(runs: Sequence[Run], notes: Sequence[str], by: Sequence[str]) -> Iterator[str]:
    tables = compare(runs, by=by)
    strategies = list(dict.fromkeys(run.result.strategy for run in runs))
    yield f"<h1>{len(runs)} runs</h1>"
    yield el.facts(
        {
            "streams": ", ".join(dict.fromkeys(run.result.stream for run in runs)),
            "strategies": ", ".join(strategies),
            "seeds": str(len({run.result.seed for run in runs})),
        }
    )
    yield el.notes(notes)
    yield from _factors(tables)
    for table in tables:
        yield f"<h2>{el.text(heading(table))}</h2>"
        yield el.notes(table.notes)
        yield _comparison_table(table)
        yield from _comparison_figures(table)
        for group in table.groups:
            yield from _group(table, group)
    yield "<h2>Environment</h2>"
    yield from _environments(runs)


def _comparison_table(table: Table) -> str:
    """The strategies under each metric; a table per family where one would be too wide."""
    families: dict[str, list[str]] = {}
    for metric in table.metrics:
        family = metric.split(".")[0] if len(table.metrics) > 5 else ""
        families.setdefault(family, []).append(metric)
    parts = [_comparison_part(table, metrics) for metrics in families.values()]
    return "".join(parts) + f'<p class="muted">{el.text(" ".join(legend([table])))}</p>'


def _comparison_part(table: Table, metrics: Sequence[str]) -> str:
    rows = []
    for i, group in enumerate(table.groups):
        row = [el.text(group.label), str(len(group.runs))]
        for metric in metrics:
            cell = table.cells[metric][i]
            shown = el.text(cell_text(cell, group))
            mark = " *" if cell.best else " =" if cell.not_worse else ""
            row.append(f'<span class="good">{shown}{mark}</span>' if mark else shown)
        rows.append(row)
    heads = ["strategy", "n", *(el.text(metric_heading(table, metric)) for metric in metrics)]
    return el.table(heads, rows)


def _comparison_figures(table: Table) -> Iterator[str]:
    names = [group.label for group in table.groups]
    if len(names) < 2 or not table.metrics:
        return
    summaries = {name: [cell.summary for cell in table.cells[name]] for name in table.metrics}
    yield el.figure(
        metric_bars(names, summaries),
        f"metrics of each strategy on {table.stream}",
        "Mean over seeds; whiskers are one standard error.",
    )
    spokes = [name for name in table.metrics if name.startswith("openloris.")]
    if len(spokes) >= 3:
        series = {
            name: {metric: _mean(summaries[metric][i]) for metric in spokes}
            for i, name in enumerate(names)
        }
        yield el.figure(
            spider(series),
            f"OpenLORIS metrics of each strategy on {table.stream}",
            "The four OpenLORIS-Object metrics in percent; further out is better.",
        )


def _mean(summary: Summary | None) -> float | None:
    return None if summary is None else summary.mean


def _factors(tables: Sequence[Table]) -> Iterator[str]:
    """One spoke per stream, where three or more streams have the same strategies."""
    metric = "openloris.accuracy"
    alike: dict[tuple[str, ...], list[Table]] = {}
    for table in tables:
        if metric in table.metrics:
            names = tuple(sorted(group.label for group in table.groups))
            alike.setdefault(names, []).append(table)
    names, usable = max(alike.items(), key=lambda item: len(item[1]), default=((), []))
    series: dict[str, dict[str, float | None]] = {name: {} for name in names}
    for table in usable:
        spoke = table.stream
        if sum(other.stream == table.stream for other in usable) > 1:
            spoke = f"{table.stream} ({table.scenario})"
        for group, cell in zip(table.groups, table.cells[metric], strict=True):
            series[group.label][spoke] = _mean(cell.summary)
    if len(usable) >= 3 and len(names) >= 2:
        yield "<h2>All streams</h2>"
        yield el.figure(
            spider(series),
            f"{metric} of each strategy on each stream",
            f"{metric} in percent, a spoke per stream; further out is better.",
        )


def _group(table: Table, group: Group) -> Iterator[str]:
    yield f"<h3>{el.text(group.label)} on {el.text(table.stream)}</h3>"
    matrices = [run.result.matrix for run in group.runs]
    if names_differ(matrices):
        yield el.notes(["No mean matrix: the runs have different experiences or tasks."])
    else:
        mean, errors = mean_matrix(matrices)
        side_by_side = max(len(mean.rows), len(mean.columns)) <= _MOST_SIDE_BY_SIDE
        kind, width = ("pair", _HALF_PAGE) if side_by_side else ("stack", _PAGE)
        spread = errors if len(matrices) > 1 else None
        caption = f"Mean and standard error over {len(matrices)} seeds. " if spread else ""
        alt = f"mean {mean.measure} matrix of {group.label}"
        matrix = el.figure(matrix_heatmap(mean, spread), alt, caption + _MATRIX_CAPTION)
        curves = el.figure(
            accuracy_curves(mean, spread, width), f"tasks over the run of {group.label}"
        )
        losses = _losses(group)
        if losses:
            curves += el.figure(loss_curves(losses, width), f"training loss of {group.label}")
        yield f'<div class="{kind}"><div>{matrix}</div><div>{curves}</div></div>'
    yield from _tensor(group.runs)
    yield _runs_table(table, group)
    yield el.details("Reproduce", _reproduce(group.runs[0]))


def _losses(group: Group) -> dict[str, tuple[Epoch, ...]]:
    """Epochs of each run that has any, named by seed, and by folder where seeds repeat."""
    runs = [run for run in group.runs if run.epochs]
    seeds = [run.result.seed for run in runs]
    return {
        f"seed {seed}" if seeds.count(seed) == 1 else run.folder.name: run.epochs
        for run, seed in zip(runs, seeds, strict=True)
    }


def _runs_table(table: Table, group: Group) -> str:
    shown = list(table.metrics)[:7]
    rows = []
    for run in group.runs:
        values = [format_value(run.metrics.get(name)) for name in shown]
        time = format_timing("train_seconds", run.timing.get("train_seconds"))
        rows.append([str(run.result.seed), *values, time, el.text(run.folder)])
    content = el.table(["seed", *map(el.text, shown), "training", "folder"], rows)
    remarks = [f"Seed {run.result.seed}: {note}" for run in group.runs for note in run.notes]
    title = "The run by itself" if len(rows) == 1 else f"Each of the {len(rows)} runs"
    return el.details(title, content + el.notes(remarks))


def _environment(run: Run) -> dict[str, str]:
    """Versions, device and revision as texts."""
    return {
        name: value if isinstance(value, str) else "-" if value is None else json.dumps(value)
        for name, value in leaves(run.result.environment)
    }


def _environments(runs: Sequence[Run]) -> Iterator[str]:
    """Each different environment once, with the number of runs made in it."""
    counts: dict[tuple[tuple[str, str], ...], int] = {}
    for run in runs:
        key = tuple(sorted(_environment(run).items()))
        counts[key] = counts.get(key, 0) + 1
    for entries, count in counts.items():
        title = "All runs" if count == len(runs) else f"{count} of {len(runs)} runs"
        yield el.pairs(title, dict(entries))
