"""The figure of the forgetting tensor: which is lost first, a skill or its robustness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from clframe.core.matrix import BEFORE
from clframe.report.figure_style import INK, MUTED, label, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from clframe.core.results import Result

_MOST_TASKS = 6  # With more tasks, only the mean over tasks is drawn.


def perturbed_results(results: Sequence[Result]) -> bool:
    """Return whether all results have tensors of the same shape."""
    shapes = {
        (tuple(r.matrix.rows), tuple(r.matrix.columns), *_keys(r)) if r.tensor else None
        for r in results
    }
    return len(shapes) == 1 and None not in shapes


def _keys(result: Result) -> tuple[tuple[str, ...], tuple[float, ...]]:
    return tuple(result.tensor.axes), tuple(result.tensor.levels)


def tensor_curves(results: Sequence[Result], width: float | None = None) -> Figure:
    """Draw success over the run: a panel per task and axis, a line per level; means over results.

    The first line of panels is the mean over the tasks learned so far. A task is drawn from the row
    that learned it, as far as it was measured.

    Args:
        results: At least one result, for all of which `perturbed_results` holds.
        width: Inches of the figure; None for the width of its panels.
    """
    first = results[0]
    axes, levels = first.tensor.axes, first.tensor.levels
    values = np.mean([_all_levels(result) for result in results], axis=0)
    rows = [i for i, row in enumerate(first.matrix.rows) if row != BEFORE]
    values = values[rows]
    names = ["learned so far", *first.matrix.columns]
    lines = [_mean_of_known(values), *(values[:, j] for j in range(values.shape[1]))]
    if len(names) > _MOST_TASKS + 1:
        names, lines = names[:1], lines[:1]
    figure = new_figure(width or 1.6 + 2.1 * len(axes), 0.9 + 1.45 * len(names))
    grid = figure.subplots(len(names), len(axes), squeeze=False, sharex=True, sharey=True)
    for j, (name, line) in enumerate(zip(names, lines, strict=True)):
        for a, axis in enumerate(axes):
            panel: Axes = grid[j][a]
            _draw(panel, line[:, a], [0.0, *levels])
            if j == 0:
                panel.set_title(label(axis), fontsize=9.5, color=INK)
        grid[j][0].set_ylabel(_wrapped(name), fontsize=8, color=INK)
    for panel in grid[-1]:
        panel.set_xticks(range(len(rows)), [str(i + 1) for i in range(len(rows))])
    handles, texts = grid[0][0].get_legend_handles_labels()
    figure.legend(
        handles, texts, title="level", loc="outside right upper", frameon=False, fontsize=8.5
    )
    figure.supxlabel("experiences learned", fontsize=9.5, color=INK)
    figure.supylabel(f"{label(first.matrix.measure)} (%)", fontsize=9.5, color=INK)
    return figure


def _all_levels(result: Result) -> NDArray[np.float64]:
    """Return the values by row, column, axis and level; level 0 is the matrix."""
    tensor, plain = result.tensor.values, result.matrix.values
    zero = np.repeat(plain[:, :, None, None], tensor.shape[2], axis=2)
    return np.concatenate([zero, tensor], axis=3)


def _mean_of_known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean over the measured tasks; NaN if there are none."""
    measured = ~np.isnan(values)
    count = measured.sum(axis=1)
    total = np.where(measured, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _draw(panel: Axes, values: NDArray[np.float64], levels: Sequence[float]) -> None:
    """Draw a line per level, the lighter the further from the demonstrations."""
    for k, level in enumerate(levels):
        shade = k / max(1, len(levels) - 1)
        color = (0.10 + 0.78 * shade, 0.30 + 0.22 * shade, 0.55 - 0.38 * shade)
        panel.plot(
            values[:, k],
            color=color,
            marker="o",
            markersize=3.5,
            linewidth=2.0 if k == 0 else 1.4,
            linestyle="-" if k == 0 else (0, (4, 1 + 1.5 * shade)),
            label=f"{level:g}",
        )
    style(panel, grid="y")
    panel.set_ylim(-0.05, 1.05)
    panel.set_yticks([0, 0.5, 1], ["0", "50", "100"])
    panel.tick_params(labelcolor=MUTED, labelsize=8)


def _wrapped(name: str, width: int = 22) -> str:
    import textwrap

    lines = textwrap.wrap(name.replace("_", " "), width)
    return "\n".join(label(line) for line in lines[:3])
