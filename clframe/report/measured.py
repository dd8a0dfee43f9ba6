"""Further results of evaluators: curves over steps and confusion matrices.

A results.json may have been made elsewhere, so entries of another form are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from clframe.core.results import Result
from clframe.recording.results_file import number
from clframe.report.figure_specs import Drawing
from clframe.report.figure_style import (
    GRID,
    HALF,
    INK,
    MUTED,
    colors,
    label,
    legend,
    new_figure,
    percent_axis,
    style,
)
from clframe.report.page_blocks import Figures, Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_NAMED = 12
_MOST_NUMBERED = 15
_MOST_CLASSES = 200  # With more, a cell of the image is smaller than a dot.


class StepCurves(NamedTuple):
    """Accuracy of the tasks seen so far at single steps.

    Args:
        steps: For each experience, the measured steps.
        values: For each experience, the values by task.
    """

    steps: list[list[float]]
    values: list[dict[str, list[float]]]


def step_curves(result: Result) -> StepCurves | None:
    """Return the curves measured every few steps; None if there are none or in another form."""
    experiences = result.measured.get("continual_evaluation", {}).get("experiences")
    steps, values = [], []
    for entry in experiences.values() if isinstance(experiences, Mapping) else ():
        positions = _numbers(entry.get("steps")) if isinstance(entry, Mapping) else None
        tasks = entry.get("tasks") if isinstance(entry, Mapping) else None
        if not positions or not isinstance(tasks, Mapping):
            return None
        lines = {str(task): _numbers(line) for task, line in tasks.items()}
        complete = {t: line for t, line in lines.items() if line and len(line) == len(positions)}
        steps.append(positions)
        values.append(complete)
    return StepCurves(steps, values) if steps else None


def confusion_of(result: Result) -> tuple[str, list[list[float]]] | None:
    """Return the last row's name and its confusion matrix, or None."""
    rows = result.measured.get("predictions", {}).get("confusion")
    if not isinstance(rows, Mapping) or not rows:
        return None
    name, square = list(rows.items())[-1]
    lines = [_numbers(line) for line in square] if isinstance(square, list) else []
    if not lines or any(line is None or len(line) != len(lines) for line in lines):
        return None
    return str(name), [line for line in lines if line is not None]


def sections(result: Result) -> Iterator[Section]:
    """Yield the sections of a run's page."""
    curves = step_curves(result)
    if curves is not None:
        every = number(result.measured["continual_evaluation"].get("every_n_steps"))
        title = "Every few steps" if every is None else f"Every {every:.0f} steps"
        drawing = Drawing(
            "every_few_steps",
            lambda width: step_figure(curves, result.matrix.columns, result.matrix.measure, width),
            f"{result.matrix.measure} of the tasks seen so far within training",
            "A line per task from the experience on that learns it; vertical lines are the ends of "
            "experiences. A line that falls after one of them and comes back is a stability gap.",
            wide=True,
            relaid=True,
        )
        yield Section("steps", title, [Figures([drawing])])
    confusion = confusion_of(result)
    if confusion is not None and len(confusion[1]) <= _MOST_CLASSES:
        square = confusion[1]
        drawing = Drawing(
            "confusions",
            lambda width: confusion_figure(square, width),
            f"confusion matrix after {confusion[0]}",
            f"After {confusion[0]}, all tasks learned so far: a row per class, with the "
            "percentage that was predicted as each class.",
            wide=len(square) > _MOST_NUMBERED,
        )
        yield Section("confusions", "Confusions", [Figures([drawing])])


def step_figure(
    curves: StepCurves, tasks: Sequence[str], measure: str, width: float = HALF
) -> Figure:
    """Draw accuracy within training: a line per task over the steps of the run.

    Args:
        curves: The measured curves.
        tasks: All tasks in order, so that each keeps its color.
        measure: Name of the values.
        width: Inches of the figure.
    """
    figure = new_figure(width, max(2.5, 0.36 * width))
    axes = figure.add_subplot()
    shade = dict(zip(tasks, colors(len(tasks)), strict=True))
    whole: dict[str, tuple[list[float], list[float]]] = {}
    means: tuple[list[float], list[float]] = ([], [])
    for positions, lines in zip(curves.steps, curves.values, strict=True):
        for task, line in lines.items():
            xs, ys = whole.setdefault(task, ([], []))
            xs.extend(positions)
            ys.extend(line)
        if lines:
            means[0].extend(positions)
            means[1].extend(math.fsum(p) / len(p) for p in zip(*lines.values(), strict=True))
    for task, (xs, ys) in whole.items():
        axes.plot(xs, ys, color=shade.get(task, MUTED), linewidth=1.1, label=label(task))
    axes.plot(*means, color=INK, linewidth=1.6, linestyle=(0, (4, 2)), label="mean of seen")
    for positions in curves.steps[:-1]:
        axes.axvline(positions[-1], color=GRID, linewidth=1, zorder=0)
    style(axes, grid="y")
    axes.set_xlim(0, curves.steps[-1][-1])
    percent_axis(axes, measure)
    axes.set_xlabel("step")
    if len(whole) <= _MOST_NAMED:
        legend(figure, axes, width)
    return figure


def confusion_figure(square: Sequence[Sequence[float]], width: float = HALF) -> Figure:
    """Draw the predictions (columns) for the samples of each class (rows), in percent of the row.

    Args:
        square: Counts by label and prediction; classes without samples are left out as rows.
        width: Inches of the figure.
    """
    tested = [i for i, line in enumerate(square) if sum(line) > 0]
    shown = sorted({*tested, *(j for i in tested for j, n in enumerate(square[i]) if n)})
    shares = [[square[i][j] / sum(square[i]) for j in shown] for i in tested]
    side = len(shown)
    cell = min(0.42, (width - 1.3) / side)
    numbered = side <= _MOST_NUMBERED and cell >= 0.2
    figure = new_figure(width, 1.0 + min(cell, 0.36 if numbered else 9 / side) * len(tested))
    axes = figure.add_subplot()
    image = axes.imshow(shares, cmap="viridis", vmin=0, vmax=1, aspect="auto")
    for i, line in enumerate(shares if numbered else ()):
        for j, share in enumerate(line):
            if share >= 0.005:
                ink = "white" if share < 0.6 else "black"
                axes.text(
                    j, i, f"{100 * share:.0f}", color=ink, ha="center", va="center", fontsize=8
                )
    style(axes)
    for edge in ("left", "bottom"):
        axes.spines[edge].set_visible(False)
    axes.tick_params(length=0)
    step = max(1, math.ceil(side / 25))
    axes.set_xticks(range(0, side, step), [str(shown[j]) for j in range(0, side, step)])
    rows = range(0, len(tested), step)
    axes.set_yticks(rows, [str(tested[i]) for i in rows])
    axes.set_xlabel("predicted class")
    axes.set_ylabel("class")
    bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02, aspect=30)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=8, length=0)
    bar.set_ticks([0, 0.5, 1], labels=["0", "50", "100"])
    bar.set_label("of the class (%)", color=INK, fontsize=9)
    return figure


def _numbers(values: Any) -> list[float] | None:
    """Return a list of finite numbers; None for anything else."""
    if not isinstance(values, list):
        return None
    numbers = [number(value) for value in values]
    finite = [value for value in numbers if value is not None]
    return finite if len(finite) == len(numbers) else None
