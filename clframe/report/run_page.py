"""The page about one run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from clframe.core.matrix import BEFORE, AccuracyMatrix, Cells
from clframe.core.results import Result
from clframe.evaluation.episodes import outcomes_of
from clframe.recording.results_file import leaves
from clframe.report import fork_tree, intervals, measured, success
from clframe.report.classes import class_blocks
from clframe.report.diagnostics import troubles
from clframe.report.figure_specs import Drawing
from clframe.report.figures import accuracy_curves, learning_curves, loss_curves, matrix_heatmap
from clframe.report.lifetime import lifetime_figure, lifetime_of, tasks_come_back
from clframe.report.metric_formats import (
    HEADLINES,
    PER_EXPERIENCE,
    card_words,
    direction,
    format_timing,
    format_value,
    formula,
    meaning,
    sort_metrics,
    timing_words,
    unit,
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
    Side,
    Table,
    Text,
)
from clframe.report.run_settings import fit_command
from clframe.report.samples import samples
from clframe.report.tensor import perturbed_results, tensor_curves
from clframe.report.videos import videos
from clframe.runs.reader import Run

_MOST_PANELS = 20  # Experiences shown while learning; more would be a wall of small figures.
_MOST_SIDE_BY_SIDE = 12  # Columns of a matrix that can be read at half the width.
MATRIX_CAPTION = "A row per learned experience, a column per task; hatched cells were not measured."
_SYMBOLS = (
    "R[i, j]: result on task j after experience i; T: the last one; b: the row “before”. "
    "Papers give the same name to different formulas, so each name begins with its source."
)


def run_page(run: Run, notes: Sequence[str] = (), experts: Sequence[Path] = ()) -> Page:
    """Return the page about one run.

    Args:
        run: The run.
        notes: Sentences to put on top.
        experts: Folders of single-task experts, for the lifetime.
    """
    result = run.result
    facts = {"scenario": result.scenario, "seed": str(result.seed), **run.further}
    return Page(
        title=f"{result.strategy} on {result.stream}",
        kind="run",
        facts={**facts, "run": run.folder.name},
        notes=notes,
        cards=list(_cards(run)),
        cards_note="Hover over a number, tap it or focus it with the tab key for its formula.",
        sections=[section for section in _sections(run, experts) if section.blocks],
    )


def _cards(run: Run) -> Iterator[Card]:
    facts, measure = run.result.metric_facts, run.result.matrix.measure
    for name, text in card_words(run.metrics):
        value = run.metrics.get(name)
        if value is None:
            continue
        yield Card(
            label=text.format(measure=measure),
            value=format_value(value, 3),
            name=name,
            formula=formula(name, facts),
            interval=intervals.final_interval(run.result) if name == "gem.acc" else "",
            direction=f"{direction(name, facts)} is better",
        )


def _sections(run: Run, experts: Sequence[Path]) -> Iterator[Section]:
    result = run.result
    measure = result.matrix.measure
    matrix = matrix_drawing(result.matrix)
    curves = Drawing(
        "tasks_over_run",
        lambda width: accuracy_curves(result.matrix, None, width, intervals.ends(result)),
        f"{measure} of each task after each experience",
        "A line per task; a line that falls after its task was learned shows forgetting."
        + (" Bands are Wilson's 95 % intervals." if intervals.ends(result) else ""),
    )
    table = Details("The matrix as a table", [matrix_table(result)])
    losses = []
    if run.epochs:
        losses.append(
            Drawing(
                "training_loss",
                lambda width: loss_curves({result.strategy: run.epochs}, width),
                "training loss per epoch",
                "Mean training loss of each epoch.",
            )
        )
    figures = Figures([matrix, curves, *losses])
    yield Section("matrix", "Matrix, and each task over the run", [figures, table])
    yield Section("classes", "Classes", list(class_blocks(result)))
    yield Section("family", "Where it began", list(_family(run)))
    yield Section("success", "Success curves", list(_success(result)))
    yield Section("perturbed", "Under perturbation", list(tensor_blocks([run])))
    yield Section("lifetime", "Lifetime", list(_lifetime(run, experts)))
    yield Section("learning", "While learning", list(_learning(result)))
    yield from measured.sections(result)
    learned = [row for row in result.matrix.rows if row != BEFORE]
    yield Section("samples", "Samples of each experience", list(samples(run.folder, len(learned))))
    yield Section("videos", "Videos", list(videos(run.folder, learned)))
    yield Section("troubles", "What went wrong, and where", list(troubles(run)))
    yield Section("metrics", "Metrics", [*_metric_tables(run), *_list_tables(run)])
    timing = {timing_words(name): format_timing(name, x) for name, x in run.timing.items()}
    pairs = [Pairs("Time and memory", timing), Pairs("Environment", environment_of(run))]
    shown = (
        [Side([pair for pair in pairs if pair.entries])] if any(p.entries for p in pairs) else []
    )
    yield Section("time", "Time, memory and environment", shown)
    yield Section("reproduce", "Reproduce", reproduce(run))


def _family(run: Run) -> Iterator[Block]:
    """Yield the run that this one was forked from."""
    origin = run.result.fork
    if origin is None:
        return
    missing = fork_tree.troubles(fork_tree.families([run]))
    if missing:
        yield Notes(missing)
    changed = origin.get("changed")
    yield Pairs(
        "The parent",
        {
            "run": str(origin.get("run")),
            "after": f"{origin.get('at')} experiences ({origin.get('experience')})",
            "learned here": f"{origin.get('learned_here')} experiences",
            "changed": ", ".join(map(str, changed)) if isinstance(changed, list) else "-",
            "state": str(origin.get("sha256"))[:12],
        },
    )


def matrix_drawing(
    matrix: AccuracyMatrix, errors: Cells | None = None, name: str = "matrix", caption: str = ""
) -> Drawing:
    """Return the matrix as a heat map, over the whole page if it has many columns."""
    return Drawing(
        name,
        lambda width: matrix_heatmap(matrix, errors, width=width),
        f"{matrix.measure} matrix: after {len(matrix.rows)} rows on {len(matrix.columns)} tasks",
        (caption + " " if caption else "") + MATRIX_CAPTION,
        wide=len(matrix.columns) > _MOST_SIDE_BY_SIDE,
    )


def _success(result: Result) -> Iterator[Block]:
    curves = success.success_curves(result)
    if len(curves) > 1:
        yield Figures(
            [
                Drawing(
                    "success_curves",
                    lambda width: success.success_figure(
                        curves, result.matrix.measure, width=width
                    ),
                    f"{result.matrix.measure} of each task while it and later tasks are learned",
                    "A panel per task: while it is learned, then after each later one. Shaded: "
                    "what counts as FWT and AUC; hatched: what is lost (NBT). The dashed line "
                    "holds the best so far, as the metrics do.",
                    wide=True,
                    relaid=True,
                )
            ]
        )


def tensor_blocks(runs: Sequence[Run]) -> Iterator[Block]:
    """Yield skill and robustness over the run, if tasks were perturbed; means over runs."""
    results = [run.result for run in runs]
    if perturbed_results(results):
        yield Figures(
            [
                Drawing(
                    "perturbed",
                    lambda width: tensor_curves(results, width=width),
                    f"{results[0].matrix.measure} over the run, by axis and level of perturbation",
                    "A line per level; level 0 is the skill as it was demonstrated. Where lines of "
                    "higher levels fall before that one, robustness is forgotten first.",
                    wide=True,
                )
            ]
        )


def _lifetime(run: Run, experts: Sequence[Path]) -> Iterator[Block]:
    if not experts and not tasks_come_back(run.result):
        return
    evaluation = lifetime_of(run.folder, experts)
    if isinstance(evaluation, str):
        yield Notes([evaluation])
    elif evaluation is not None:
        dashed = (
            " Dashed: a single-task expert on the same blocks." if evaluation.expert_curves else ""
        )
        yield Figures(
            [
                Drawing(
                    "lifetime",
                    lambda width: lifetime_figure(evaluation, width=width),
                    f"{evaluation.measure} over the lifetime, learning blocks shaded",
                    "Shaded: a learning block in its task's color, with its learning curve. "
                    f"Points: evaluations of every task after each block.{dashed}",
                    wide=True,
                    relaid=True,
                )
            ]
        )
        rows = [
            (Head(name, meaning(f"l2.{name}"), code=True), [Cell(format_value(value))])
            for name, value in evaluation.lifetime.items()
            if value is not None
        ]
        if rows:
            yield Table("L2 metrics", [Head("metric"), Head("value")], rows,
                        "Of the whole lifetime (New et al., 2022), as clframe l2 computes them.",
                        )  # fmt: skip


def _learning(result: Result) -> Iterator[Block]:
    if not result.curves:
        return
    shown = dict(list(result.curves.items())[:_MOST_PANELS])
    tasks, measure = result.matrix.columns, result.matrix.measure
    rest = len(result.curves) - len(shown)
    drawing = Drawing(
        "while_learning",
        lambda width: learning_curves(shown, tasks, measure, width),
        f"{measure} while learning each experience",
        "A panel per experience, a line per task in the colors of the figure above."
        + (f" {rest} later experiences are not shown." if rest else ""),
        wide=True,
        relaid=True,
    )
    yield Figures([drawing])


def _metric_tables(run: Run) -> Iterator[Block]:
    """Yield the metrics that papers report, and all others below a click."""
    names = sort_metrics(run.metrics)
    first = [name for name in names if name in HEADLINES] or names
    rest = [name for name in names if name not in first]
    if not names:
        yield Text("The run has no metrics.")
        return
    yield _metric_table(run, first, "Metrics")
    if rest:
        yield Details(f"{len(rest)} more metrics", [_metric_table(run, rest, "More metrics")])


def _metric_table(run: Run, names: Sequence[str], title: str) -> Table:
    facts = run.result.metric_facts
    rows = []
    for name in names:
        value = f"{format_value(run.metrics[name])} {unit(name, facts)}".rstrip()
        note = explanation(name, run.result)
        rows.append((Head(name, note, code=True), [Cell(value), Cell(direction(name, facts))]))
    return Table(title, [Head("metric"), Head("value"), Head("better")], rows, _SYMBOLS)


def explanation(name: str, result: Result) -> str:
    """Return the meaning and formula of a metric, with the name of the run's own measure."""
    facts, measure = result.metric_facts, result.matrix.measure
    text_of_metric = meaning(name, facts).replace("accuracy", measure)
    return ": ".join(text for text in (text_of_metric, formula(name, facts)) if text)


def _list_tables(run: Run) -> Iterator[Block]:
    """Yield metrics with a value per task, and metrics with one per learned experience."""
    experiences = [row for row in run.result.matrix.rows if row != BEFORE]
    for title, names, per_experience in (
        ("Per task", run.result.matrix.columns, False),
        ("Per experience", experiences, True),
    ):
        rows = [
            (Head(name, code=True), [Cell(format_value(value)) for value in values])
            for name, values in run.result.lists().items()
            if name.startswith(PER_EXPERIENCE) == per_experience and len(values) == len(names)
        ]
        if rows:
            yield Heading(title)
            yield Table(title, [Head("metric"), *map(Head, names)], rows)


def matrix_table(result: Result) -> Table:
    """Return the matrix in numbers, with intervals if the number of samples is known."""
    matrix, intervals_of_cells = result.matrix, intervals.cell_intervals(result)
    rows = [
        (
            Head(name),
            [
                Cell(format_value(value), note=intervals_of_cells.get((i, j), ""))
                for j, value in enumerate(values)
            ],
        )
        for i, (name, values) in enumerate(zip(matrix.rows, matrix.cells, strict=True))
    ]
    caption = "Below each value its Wilson 95 % interval." if intervals_of_cells else ""
    if stopped := sum(bool(cell.stopped) for cell in outcomes_of(result).values()):
        caption += f" {stopped} cells were stopped early, as the settings asked (stream.stop_...)."
    return Table("Matrix", [Head("after learning"), *map(Head, matrix.columns)], rows, caption)


def reproduce(run: Run) -> list[Block]:
    """Return the command that repeats a run, and its configuration."""
    command = fit_command(run)
    blocks: list[Block] = [Code("The command", command.text)]
    if run.config is None:
        blocks.append(
            Notes(
                ["There is no config.yaml, so the command holds only settings from results.json."]
            )
        )
        return blocks
    if command.note:
        blocks.append(Text(command.note))
    if command.complete is not None:
        blocks.append(
            Details("With every setting written out", [Code("The command", command.complete)])
        )
    blocks.append(Details("The whole configuration", [Code("config.yaml", run.config)]))
    return blocks


def environment_of(run: Run) -> dict[str, str]:
    """Return versions, device and revisions as texts."""
    return {
        _label_of(name): value
        if isinstance(value, str)
        else "-"
        if value is None
        else json.dumps(value)
        for name, value in leaves(run.result.environment)
    }


def _label_of(name: str) -> str:
    return name.removeprefix("versions.").replace("_", " ")
