"""Bars that compare strategies, a panel per metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from clframe.report.canvas import INK, MUTED, colors, label, labels, new_figure, style
from clframe.report.names import format_value
from clframe.utils.statistics import Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def metric_bars(names: Sequence[str], metrics: Mapping[str, Sequence[Summary | None]]) -> Figure:
    """One panel per metric, one bar per strategy, whiskers of one standard error.

    Args:
        names: The strategies, from top to bottom.
        metrics: For each metric one summary per strategy, None where unknown.
    """
    across = min(len(metrics), 3)
    down = math.ceil(len(metrics) / across)
    figure = new_figure(1.2 + 2.7 * across, down * (0.75 + 0.3 * len(names)))
    shades = colors(len(names))
    for index, (metric, cells) in enumerate(metrics.items()):
        axes = figure.add_subplot(down, across, index + 1)
        for i, (cell, color) in enumerate(zip(cells, shades, strict=True)):
            text = "-"
            if cell is not None:
                error = cell.standard_error
                axes.barh(i, cell.mean, height=0.66, color=color)
                if error is not None:
                    axes.errorbar(cell.mean, i, xerr=error, color=INK, capsize=2.5, linewidth=1)
                text = format_value(cell.mean, 3)
            axes.text(
                1.03, i, text, transform=axes.get_yaxis_transform(), va="center", color=INK,
                fontsize=8.5,
            )  # fmt: skip
        axes.axvline(0, color=MUTED, linewidth=0.8)
        style(axes, grid="x")
        axes.spines["left"].set_visible(False)
        first = index % across == 0
        axes.set_yticks(range(len(names)), labels(names) if first else [""] * len(names))
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.locator_params(axis="x", nbins=4)
        axes.set_title(label(metric), fontsize=9.5, color=INK, loc="left")
        known = [cell.mean for cell in cells if cell is not None]
        if known and min(known) >= 0 and max(known) <= 1:
            axes.set_xlim(0, 1.02)  # fractions share one scale, so panels can be compared
    return figure
