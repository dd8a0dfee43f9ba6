"""The page about several runs, grouped by stream and strategy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clframe.core.matrix import names_differ
from clframe.report.compare import Cell as Compared
from clframe.report.compare import Group, Table, compare
from clframe.report.comparison_figures import factors, stream_figures
from clframe.report.diagnostics import largest_drops
from clframe.report.figure_specs import Drawing
from clframe.report.figures import accuracy_curves, loss_curves, mean_matrix
from clframe.report.fork_tree import as_lines, families, family_figure, troubles, words_of
from clframe.report.intervals import seeds_interval
from clframe.report.metric_formats import (
    card_words,
    direction,
    format_timing,
    format_value,
    formula,
    timing_words,
)
from clframe.report.page_blocks import (
    Block,
    Card,
    Cell,
    Code,
    Details,
    Figures,
    Head,
    Heading,
    Notes,
    Page,
    Pairs,
    Section,
    Text,
)
from clframe.report.page_blocks import Table as TableBlock
from clframe.report.run_page import (
    environment_of,
    explanation,
    matrix_drawing,
    reproduce,
    tensor_blocks,
)
from clframe.report.tables import cell_text, heading, legend, metric_heading
from clframe.runs.reader import Epoch, Run
from clframe.utils.statistics import summarize

_COSTS = ("train_seconds", "eval_seconds", "samples_per_second", "peak_memory_bytes")


def comparison_page(runs: Sequence[Run], notes: Sequence[str] = (), by: Sequence[str] = ()) -> Page:
    """Return the page about several runs.

    Args:
        runs: The runs.
        notes: Sentences to put on top, such as which folders were left out.
        by: Settings that distinguish groups of runs besides the strategy.
    """
    tables = compare(runs, by=by)
    strategies = list(dict.fromkeys(group.label for table in tables for group in table.groups))
    streams = list(dict.fromkeys(run.result.stream for run in runs))
    named = " and ".join(streams) if len(streams) < 3 else f"{len(streams)} streams"
    sections = [
        Section("family", "Lifetimes that share their beginning", list(_family(runs))),
        Section("streams", "All streams", list(factors(tables))),
    ]
    for index, table in enumerate(tables):
        anchor = f"table{index}" if len(tables) > 1 else "comparison"
        sections.append(Section(anchor, heading(table), list(_comparison(table))))
        for number, group in enumerate(table.groups):
            title = f"{group.label} on {table.stream}"
            blocks = list(_group(table, group))
            sections.append(Section(f"{anchor}-{number}", title, blocks, minor=True))
    sections.append(Section("time", "Time and memory", list(_costs(tables))))
    sections.append(Section("troubles", "What went wrong, and where", list(_troubles(tables))))
    sections.append(Section("environment", "Environment", list(_environments(runs))))
    return Page(
        title=f"{len(strategies)} strategies on {named}: {len(runs)} runs",
        kind="comparison",
        facts={
            "streams": ", ".join(streams),
            "strategies": ", ".join(strategies),
            "seeds": str(len({run.result.seed for run in runs})),
        },
        notes=list(notes),
        cards=list(_cards(tables[0])) if len(tables) == 1 else [],
        cards_note="The best strategy for each. Hover over a number, tap it or focus it with the "
        "tab key for its formula.",
        sections=[section for section in sections if section.blocks],
    )


# ---------------------------------------------------------------- headline


def _cards(table: Table) -> Iterator[Card]:
    """Yield the best strategy for each headline number."""
    facts = table.groups[0].runs[0].result.metric_facts
    measure = table.groups[0].runs[0].result.matrix.measure
    for name, text in card_words(table.cells):
        for group, cell in zip(table.groups, table.cells.get(name, ()), strict=False):
            if cell.best and cell.summary is not None:
                samples = [x for run in group.runs if (x := run.metrics.get(name)) is not None]
                yield Card(
                    label=text.format(measure=measure),
                    value=format_value(cell.summary.mean, 3),
                    name=name,
                    who=group.label,
                    formula=formula(name, facts),
                    interval=_of_seeds(samples),
                    direction=f"{direction(name, facts)} is better",
                )
                break


def _of_seeds(samples: Sequence[float]) -> str:
    interval = seeds_interval(summarize(samples, confidence=0.95))
    return f"95 % over {len(samples)} seeds: {interval}" if interval else ""


def _family(runs: Sequence[Run]) -> Iterator[Block]:
    """Yield the runs that were forked from each other."""
    roots = families(runs)
    if not roots:
        return
    missing = troubles(roots)
    if missing:
        yield Notes(missing)
    yield Figures(
        [
            Drawing(
                "lifetimes",
                lambda width: family_figure(roots, width),
                f"tree of {words_of(roots)}",
                f"{words_of(roots)}: a line per run, which branches off where the run was forked; "
                "shared experiences were learned once. At its end the mean of its last row.",
                wide=True,
            )
        ]
    )
    yield Details("The tree as text", [Code("Tree of lifetimes", "\n".join(as_lines(roots)))])


# ---------------------------------------------------------------- one stream


def _comparison(table: Table) -> Iterator[Block]:
    if table.notes:
        yield Notes(table.notes)
    families: dict[str, list[str]] = {}
    for metric in table.metrics:
        family = metric.split(".")[0] if len(table.metrics) > 5 else ""
        families.setdefault(family, []).append(metric)
    for family, metrics in families.items():
        yield _table(table, metrics, family)
    if table.differences:
        yield _differences(table)
    several = any(len(group.runs) > 1 for group in table.groups)
    brackets = ["[ ]: 95 % interval over seeds (Student's t)."] if several else []
    yield Text(" ".join([*legend([table]), *brackets]))
    drawings = list(stream_figures(table))
    if drawings:
        yield Figures(drawings)


def _table(table: Table, metrics: Sequence[str], family: str) -> TableBlock:
    rows = []
    for i, group in enumerate(table.groups):
        cells = [_cell(table.cells[metric][i], group, metric) for metric in metrics]
        rows.append((Head(group.label), [Cell(str(len(group.runs))), *cells]))
    heads = [
        Head(metric_heading(table, metric), explanation(metric, table.groups[0].runs[0].result))
        for metric in metrics
    ]
    title = f"{family} metrics".strip() + f" on {table.stream}"
    return TableBlock(title, [Head("strategy"), Head("n"), *heads], rows)


def _differences(table: Table) -> TableBlock:
    rows = [
        (Head(group.label), [Cell(texts[i]) for texts in table.differences.values()])
        for i, group in enumerate(table.groups)
    ]
    heads = [Head("strategy"), *map(Head, table.differences)]
    return TableBlock(
        "What differs besides the strategy",
        heads,
        rows,
        "Memory: samples and bytes that the strategy keeps from one experience to the next.",
    )


def _cell(cell: Compared, group: Group, metric: str) -> Cell:
    mark = "best" if cell.best else "same" if cell.not_worse else ""
    values = [x for run in group.runs if (x := _value(run, metric)) is not None]
    note = seeds_interval(summarize(values, confidence=0.95)) if values else ""
    return Cell(cell_text(cell, group), mark, note)


def _value(run: Run, metric: str) -> float | None:
    if metric.startswith("timing."):
        return run.timing.get(metric.removeprefix("timing."))
    return run.metrics.get(metric)


# ---------------------------------------------------------------- one strategy


def _group(table: Table, group: Group) -> Iterator[Block]:
    matrices = [run.result.matrix for run in group.runs]
    drawings: list[Drawing] = []
    if names_differ(matrices):
        yield Notes(["No mean matrix: the runs have different experiences or tasks."])
    else:
        mean, errors = mean_matrix(matrices)
        spread = errors if len(matrices) > 1 else None
        caption = f"Mean and standard error over {len(matrices)} seeds." if spread else ""
        drawings.append(matrix_drawing(mean, spread, f"matrix_{group.label}", caption))
        drawings.append(
            Drawing(
                f"tasks_over_run_{group.label}",
                lambda width: accuracy_curves(mean, spread, width),
                f"{mean.measure} of each task after each experience of {group.label}",
                "A line per task" + ("; bands: one standard error." if spread else "."),
            )
        )
    losses = _losses(group)
    if losses:
        drawings.append(
            Drawing(
                f"training_loss_{group.label}",
                lambda width: loss_curves(losses, width),
                f"training loss of {group.label}",
                "Mean training loss of each epoch, a line per run.",
            )
        )
    if drawings:
        yield Figures(drawings)
    perturbed = list(tensor_blocks(group.runs))
    if perturbed:
        yield Heading("Under perturbation")
        yield from perturbed
    yield _runs_table(table, group)
    yield Details("Reproduce", reproduce(group.runs[0]))


def _losses(group: Group) -> dict[str, tuple[Epoch, ...]]:
    """Return the epochs of each run that has any, by seed, and by folder if seeds repeat."""
    runs = [run for run in group.runs if run.epochs]
    seeds = [run.result.seed for run in runs]
    return {
        f"seed {seed}" if seeds.count(seed) == 1 else run.folder.name: run.epochs
        for run, seed in zip(runs, seeds, strict=True)
    }


def _runs_table(table: Table, group: Group) -> Block:
    shown = list(table.metrics)[:7]
    rows = []
    for run in group.runs:
        cells = [Cell(format_value(run.metrics.get(name))) for name in shown]
        time = format_timing("train_seconds", run.timing.get("train_seconds"))
        rows.append((Head(str(run.result.seed)), [*cells, Cell(time), Cell(str(run.folder))]))
    heads = [Head("seed"), *map(Head, shown), Head("training"), Head("folder")]
    remarks = [f"Seed {run.result.seed}: {note}" for run in group.runs for note in run.notes]
    title = "The run by itself" if len(rows) == 1 else f"Each of the {len(rows)} runs"
    blocks: list[Block] = [TableBlock(f"Runs of {group.label}", heads, rows)]
    return Details(title, [*blocks, *([Notes(remarks)] if remarks else [])])


# ---------------------------------------------------------------- the rest


def _costs(tables: Sequence[Table]) -> Iterator[Block]:
    for table in tables:
        names = [
            name for name in _COSTS
            if any(run.timing.get(name) is not None for g in table.groups for run in g.runs)
        ]  # fmt: skip
        if not names:
            continue
        rows = [
            (Head(group.label), [Cell(_cost(group, name)) for name in names])
            for group in table.groups
        ]
        heads = [Head("strategy"), *(Head(timing_words(name)) for name in names)]
        note = f"{heading(table)}: means over runs ± one standard error." if rows else ""
        yield TableBlock(f"Time and memory on {table.stream}", heads, rows, note)


def _cost(group: Group, name: str) -> str:
    values = [x for run in group.runs if (x := run.timing.get(name)) is not None]
    if not values:
        return "-"
    summary = summarize(values)
    text = format_timing(name, summary.mean)
    error = summary.standard_error
    return text if not error else f"{text} ± {format_timing(name, error)}"


def _troubles(tables: Sequence[Table]) -> Iterator[Block]:
    """Yield, for each strategy, the task that fell most, and the warnings of its runs."""
    rows, sentences = [], []
    for table in tables:
        for group in table.groups:
            for run in group.runs:
                where = f"{group.label}, seed {run.result.seed}"
                sentences += [f"{where}: {sentence}" for sentence in run.notes]
            matrices = [run.result.matrix for run in group.runs]
            drops = [] if names_differ(matrices) else largest_drops(mean_matrix(matrices)[0])
            if drops:
                drop = drops[0]
                change = 100 * (drop.after - drop.before)
                name = group.label if len(tables) == 1 else f"{group.label} on {table.stream}"
                cells = [drop.task, drop.while_learning, f"{change:.1f}", str(len(drops))]
                rows.append((Head(name), [Cell(text) for text in cells]))
    if sentences:
        yield Notes(list(dict.fromkeys(sentences)))
    if rows:
        heads = ["strategy", "task that fell most", "while learning", "points", "falls in all"]
        yield TableBlock(
            "Largest falls", [Head(head) for head in heads], rows,
            "From one experience to the next, in percentage points of the mean over seeds; a fall "
            "counts from 5 points on.",
        )  # fmt: skip


def _environments(runs: Sequence[Run]) -> Iterator[Block]:
    """Yield each different environment once, with the number of its runs."""
    counts: dict[tuple[tuple[str, str], ...], int] = {}
    for run in runs:
        key = tuple(sorted(environment_of(run).items()))
        counts[key] = counts.get(key, 0) + 1
    for entries, count in counts.items():
        if entries:
            title = "All runs" if count == len(runs) else f"{count} of {len(runs)} runs"
            yield Pairs(title, dict(entries))
