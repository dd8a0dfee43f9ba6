"""The figures of a report. Each function takes plain data and returns a matplotlib `Figure`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clframe.core.matrix import BEFORE, AccuracyMatrix, Cells, names_differ
from clframe.errors import SettingError
from clframe.report.charts import metric_bars, seen_so_far
from clframe.report.figure_style import (
    GRID,
    HALF,
    INK,
    MUTED,
    colors,
    label,
    labels,
    legend,
    new_figure,
    percent_axis,
    save,
    style,
    to_png_bytes,
    to_svg,
)
from clframe.report.spider import spider, spiders
from clframe.runs.reader import Epoch
from clframe.utils.statistics import Summary, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "accuracy_curves",
    "learning_curves",
    "loss_curves",
    "matrix_heatmap",
    "mean_matrix",
    "metric_bars",
    "save",
    "seen_so_far",
    "spider",
    "spiders",
    "to_png_bytes",
    "to_svg",
]

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "<", ">", "h", "*")
_MOST_NUMBERED = 24  # With more columns or rows, numbers in the cells are too small to read.
_LEAST_CELL = 0.27  # Inches of a cell that can hold two digits.
_MOST_NAMED = 12  # With more lines, a legend is longer than the figure is high.


def matrix_heatmap(
    matrix: AccuracyMatrix | Mapping[str, Any], errors: Cells | None = None, width: float = HALF
) -> Figure:
    """Draw the train-test matrix in percent: a row per experience, a column per task.

    A line separates the row "before"; cells that were not measured are hatched.

    Args:
        matrix: One run's matrix, the object `matrix` of a `results.json`, or a `mean_matrix`.
        errors: Standard errors of the same shape, written below the numbers.
        width: Inches of the figure.
    """
    matrix = _matrix(matrix)
    rows, columns = len(matrix.rows), len(matrix.columns)
    names = max(len(name) for name in labels(matrix.rows))
    wide = (width - 1.15 - 0.065 * names) / columns
    numbered = max(rows, columns) <= _MOST_NUMBERED and wide >= _LEAST_CELL
    small = columns > 10 or wide < 0.42
    high = (0.36 if small else 0.46) if numbered else max(0.1, min(0.36, 8 / rows))
    figure = new_figure(width, min(1.3 + high * rows, 14))
    axes = figure.add_subplot()
    tops = _row_tops(matrix.rows)
    for i, row in enumerate(matrix.cells):
        mesh = axes.pcolormesh(
            range(columns + 1),
            [tops[i], tops[i] + 1],
            [[math.nan if x is None else x for x in row]],
            cmap="viridis",
            vmin=0,
            vmax=1,
            edgecolors="face",  # Closes the hairlines that viewers leave between cells.
            linewidth=0.6,
            antialiased=True,
        )
        for j, value in enumerate(row):
            if value is None:
                _hatch(axes, tops[i], j)
            elif numbered:
                error = errors[i][j] if errors is not None else None
                # Viridis changes from dark to light at about 0.6.
                ink = "white" if value < 0.6 else "black"
                _number(axes, (tops[i], j), value, error, ink, small=small)
    style(axes)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)
    _name_ticks(axes, "x", matrix.columns, [j + 0.5 for j in range(columns)], space=wide)
    _name_ticks(axes, "y", matrix.rows, [top + 0.5 for top in tops])
    axes.set_xlim(0, columns)
    axes.set_ylim(tops[-1] + 1, 0)
    axes.set_xlabel("evaluated task")
    axes.set_ylabel("after learning")
    bar = figure.colorbar(mesh, ax=axes, fraction=0.05, pad=0.02, aspect=30)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=8, length=0)
    bar.set_ticks([0, 0.25, 0.5, 0.75, 1], labels=["0", "25", "50", "75", "100"])
    bar.set_label(f"{label(matrix.measure)} (%)", color=INK, fontsize=9)
    return figure


def _matrix(matrix: AccuracyMatrix | Mapping[str, Any]) -> AccuracyMatrix:
    """Return a matrix, also from the object `matrix` of a `results.json`."""
    return matrix if isinstance(matrix, AccuracyMatrix) else AccuracyMatrix.from_json(matrix)


def _row_tops(rows: Sequence[str]) -> list[float]:
    """Return where each row begins; a gap separates the untrained model."""
    gap = 0.12 if rows[0] == BEFORE else 0.0
    return [i + (gap if i else 0.0) for i in range(len(rows))]


def _hatch(axes: Axes, top: float, j: int) -> None:
    from matplotlib.patches import Rectangle

    patch = Rectangle((j, top), 1, 1, facecolor="none", edgecolor=MUTED, hatch="////", linewidth=0)
    axes.add_patch(patch)


def _number(
    axes: Axes, cell: tuple[float, int], value: float, error: float | None, ink: str, *, small: bool
) -> None:
    top, j = cell
    digits = 0 if small else 1
    text = f"{100 * value + 0.0:.{digits}f}"
    size = 7.5 if small else 9.5
    if error is None:
        axes.text(j + 0.5, top + 0.5, text, color=ink, ha="center", va="center", fontsize=size)
        return
    axes.text(j + 0.5, top + 0.36, text, color=ink, ha="center", va="center", fontsize=size)
    below = f"±{100 * error:.{digits}f}"
    axes.text(j + 0.5, top + 0.73, below, color=ink, ha="center", va="center", fontsize=size - 2.5)


def _name_ticks(
    axes: Axes, axis: str, names: Sequence[str], positions: Sequence[float], space: float = 0.6
) -> None:
    """Name the ticks, or only every n-th if there are too many to read.

    `space` is the width in inches available to a name along x before it must be rotated.
    """
    step = max(1, math.ceil(len(names) / 40), math.ceil(0.22 / space))
    shown = labels(names[::step])
    if axis == "y":
        axes.set_yticks(positions[::step], shown)
        return
    axes.set_xticks(positions[::step], shown)
    if max(map(len, shown)) * 0.085 > space * step:
        axes.tick_params(axis="x", labelrotation=40)
        for text in axes.get_xticklabels():
            text.set_horizontalalignment("right")
            text.set_rotation_mode("anchor")


def mean_matrix(matrices: Sequence[AccuracyMatrix]) -> tuple[AccuracyMatrix, Cells]:
    """Return the mean over seeds of each cell, and the standard error of that mean.

    A cell is unknown if any of the matrices lacks it, because a mean over fewer seeds could not be
    compared with its neighbors.

    Raises:
        SettingError: The matrices have different rows, columns or measures.
    """
    if not matrices or names_differ(matrices):
        raise SettingError("a mean matrix needs runs with the same experiences, tasks and measure.")
    first = matrices[0]
    samples = [matrix.cells for matrix in matrices]
    means: list[list[float | None]] = []
    errors: list[list[float | None]] = []
    for i in range(len(first.rows)):
        row: list[Summary | None] = []
        for j in range(len(first.columns)):
            sample = [cells[i][j] for cells in samples]
            values = [value for value in sample if value is not None]
            row.append(summarize(values) if len(values) == len(sample) else None)
        means.append([None if cell is None else cell.mean for cell in row])
        errors.append([None if cell is None else cell.standard_error for cell in row])
    return AccuracyMatrix.from_json({**first.to_json(), "values": means}), errors


def accuracy_curves(
    matrix: AccuracyMatrix | Mapping[str, Any],
    errors: Cells | None = None,
    width: float = HALF,
    ends: tuple[Cells, Cells] | None = None,
) -> Figure:
    """Draw each task's result while the others are learned, with the mean over all tasks.

    Args:
        matrix: Rows are the points along x, columns the lines.
        errors: Standard errors of the same shape, drawn as bands.
        width: Inches of the figure.
        ends: Lower and upper ends of intervals of the same shape, drawn as bands if there are few
            enough lines.
    """
    matrix = _matrix(matrix)
    cells = matrix.cells
    figure = new_figure(width, max(2.4, 0.55 * width))
    axes = figure.add_subplot()
    positions = range(len(matrix.rows))
    shades = colors(len(matrix.columns))
    few = len(matrix.columns) <= _MOST_NAMED
    for j, (name, color) in enumerate(zip(matrix.columns, shades, strict=True)):
        line = _column(cells, j)
        axes.plot(
            positions,
            line,
            color=color,
            # Without color, markers distinguish tasks.
            marker=_MARKERS[j % len(_MARKERS)] if few else "",
            markersize=4,
            linewidth=1.6 if few else 1,
            label=label(name),
        )
        if errors is not None:
            spread = _column(errors, j)
            low = [y - e for y, e in zip(line, spread, strict=True)]
            high = [y + e for y, e in zip(line, spread, strict=True)]
            axes.fill_between(positions, low, high, color=color, alpha=0.18, linewidth=0)
        elif ends is not None and few:
            low, high = (_column(end, j) for end in ends)
            axes.fill_between(positions, low, high, color=color, alpha=0.08, linewidth=0)
    mean = [_mean_of_row(row) for row in cells]
    axes.plot(positions, mean, color=INK, linewidth=2.2, linestyle=(0, (4, 2)), label="mean")
    if matrix.rows[0] == BEFORE and len(matrix.rows) > 1:
        axes.axvline(0.5, color=MUTED, linewidth=0.8, linestyle=":")
    style(axes, grid="y")
    space = (width - 2.1) / len(matrix.rows)
    numbered = max(map(len, labels(matrix.rows))) * 0.085 > space
    if numbered:  # Rotated names would take half of the figure; the matrix has them.
        begun = matrix.rows[0] == BEFORE
        numbers = [str(i if begun else i + 1) for i in positions]
        step = max(1, math.ceil(len(numbers) / 20))
        axes.set_xticks(positions[::step], numbers[::step])
    else:
        _name_ticks(axes, "x", matrix.rows, positions, space=space)
    percent_axis(axes, matrix.measure)
    axes.set_xlabel("experiences learned" if numbered else "after learning")
    if few:
        legend(figure, axes, width)
    else:
        _color_scale(figure, axes, shades, matrix.columns)
    return figure


def _column(cells: Cells, j: int) -> list[float]:
    return [math.nan if (value := row[j]) is None else value for row in cells]


def _mean_of_row(row: Sequence[float | None]) -> float:
    values = [value for value in row if value is not None]
    return math.fsum(values) / len(values) if len(values) == len(row) else math.nan


def _color_scale(figure: Figure, axes: Axes, shades: Sequence[str], names: Sequence[str]) -> None:
    """Draw the colors in order with the first and last name, instead of a long legend."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    scale = ScalarMappable(Normalize(0, len(shades)), ListedColormap(list(shades)))
    bar = figure.colorbar(scale, ax=axes, fraction=0.04, pad=0.02, aspect=30)
    middle = len(names) // 2
    bar.set_ticks(
        [0.5, middle + 0.5, len(names) - 0.5], labels=labels([names[0], names[middle], names[-1]])
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelcolor=INK, labelsize=8, length=0)
    bar.ax.invert_yaxis()
    axes.set_title("dashed: mean over all tasks", fontsize=8.5, color=MUTED, loc="right")


def learning_curves(
    curves: Mapping[str, Mapping[str, Sequence[float | None]]],
    tasks: Sequence[str],
    measure: str,
    width: float = HALF,
) -> Figure:
    """Draw results while learning: a panel per experience, a line per task.

    Args:
        curves: Values in order of epochs, by experience and by task.
        tasks: All tasks in order, so that each keeps the color it has in `accuracy_curves`.
        measure: Name of the values.
        width: Inches of the figure.
    """
    across = min(len(curves), max(2, int(width / 1.7)))
    down = math.ceil(len(curves) / across)
    across = math.ceil(len(curves) / down)
    figure = new_figure(width, 0.4 + 1.5 * down)
    shade = dict(zip(tasks, colors(len(tasks)), strict=True))
    for index, (name, lines) in enumerate(curves.items()):
        axes = figure.add_subplot(down, across, index + 1)
        for task, values in lines.items():
            line = [math.nan if value is None else value for value in values]
            mark = "o" if len(line) <= 12 else ""
            axes.plot(line, color=shade.get(task, MUTED), marker=mark, markersize=3, linewidth=1.4)
        style(axes, grid="y")
        axes.set_title(label(name), fontsize=9, color=INK, loc="left")
        axes.set_ylim(-0.03, 1.03)
        axes.set_yticks([0, 0.5, 1], ["0", "50", "100"] if index % across == 0 else [""] * 3)
        axes.locator_params(axis="x", integer=True, nbins=4)
    figure.supylabel(f"{label(measure)} (%)", fontsize=9.5, color=INK)
    figure.supxlabel("evaluation while learning", fontsize=9.5, color=INK)
    return figure


def loss_curves(series: Mapping[str, Sequence[Epoch]], width: float = HALF) -> Figure:
    """Draw the training loss per epoch, experience after experience.

    Args:
        series: Epochs of each run by its label; one run needs no legend.
        width: Inches of the figure.
    """
    figure = new_figure(width, max(2.2, 0.5 * width))
    axes = figure.add_subplot()
    keys = sorted({(e.experience, e.epoch) for epochs in series.values() for e in epochs})
    position = {key: i for i, key in enumerate(keys)}
    losses = [e.loss for epochs in series.values() for e in epochs]
    many = len(keys) > 60
    # With one epoch each, unconnected points would be hard to follow.
    single = len({experience for experience, _ in keys}) == len(keys)
    for color, (name, epochs) in zip(colors(len(series)), series.items(), strict=True):
        named = False
        for experience in [None] if single else sorted({e.experience for e in epochs}):
            own = [e for e in epochs if experience in (None, e.experience)]
            axes.plot(
                [position[e.experience, e.epoch] for e in own],
                [e.loss for e in own],
                color=color,
                linewidth=1.5,
                marker="" if many else "o",
                markersize=4,
                label="_" if named else label(name),
            )
            named = True
    style(axes, grid="y")
    starts = [i for i, key in enumerate(keys) if i == 0 or key[0] != keys[i - 1][0]]
    for start in starts[1:] if len(starts) <= 24 else ():
        axes.axvline(start - 0.5, color=GRID, linewidth=1)
    step = max(1, math.ceil(len(starts) / 24))
    ends = [*starts[1:], len(keys)]
    middles = [(a + b - 1) / 2 for a, b in zip(starts, ends, strict=True)]
    axes.set_xticks(middles[::step], [str(keys[s][0]) for s in starts[::step]])
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, len(keys) - 0.4)
    axes.set_xlabel("experience (a point per epoch)")
    if losses and min(losses) > 0 and max(losses) / min(losses) > 50:
        axes.set_yscale("log")
        axes.set_ylabel("training loss (log)")
    else:
        axes.set_ylabel("training loss")
    if len(series) > 1:
        legend(figure, axes, width)
    return figure
