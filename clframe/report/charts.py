"""Figures that compare strategies: bars of a metric, and the mean over tasks seen so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from clframe.report.figure_style import (
    GRID,
    HALF,
    INK,
    MUTED,
    PAPER,
    label,
    labels,
    legend,
    new_figure,
    percent_axis,
    style,
)
from clframe.report.metric_formats import format_value
from clframe.report.styles import styles_of
from clframe.utils.statistics import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Line(NamedTuple):
    """The line of a strategy over the experiences.

    Args:
        means: Mean after each experience, NaN if unknown.
        low: Lower end of a band around the means; None for no band.
        high: Upper end of the band.
    """

    means: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


def metric_bars(
    names: Sequence[str], metrics: Mapping[str, Sequence[Summary | None]], width: float = HALF
) -> Figure:
    """Draw one panel per metric, one bar per strategy, with whiskers of one standard error.

    Args:
        names: The strategies, from top to bottom.
        metrics: For each metric one summary per strategy, None if unknown.
        width: Inches of the figure.
    """
    room = 0.2 + 0.075 * max(map(len, labels(names)))
    across = max(1, min(len(metrics), int((width - room) / 1.9)))
    down = math.ceil(len(metrics) / across)
    figure = new_figure(width, down * (0.6 + 0.24 * len(names)))
    look = styles_of(names)
    for index, (metric, cells) in enumerate(metrics.items()):
        axes = figure.add_subplot(down, across, index + 1)
        for i, (name, cell) in enumerate(zip(names, cells, strict=True)):
            text = "-"
            if cell is not None:
                error = cell.standard_error
                axes.barh(i, cell.mean, height=0.66, color=look[name].color)
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
        axes.locator_params(axis="x", nbins=3)
        axes.set_title(label(metric), fontsize=9.5, color=INK, loc="left")
        means = [cell.mean for cell in cells if cell is not None]
        if means and min(means) >= 0 and max(means) <= 1:
            axes.set_xlim(0, 1.02)  # Fractions share one scale, so that panels can be compared.
    return figure


def seen_so_far(series: Mapping[str, Line], measure: str, width: float = HALF) -> Figure:
    """Draw the mean over the tasks learned so far by experience, with a line per strategy.

    Args:
        series: The strategies' lines.
        measure: Name of the values.
        width: Inches of the figure.
    """
    figure = new_figure(width, max(2.5, 0.56 * width))
    axes = figure.add_subplot()
    longest = max(len(line.means) for line in series.values())
    _strategy_lines(axes, series)
    style(axes, grid="y")
    percent_axis(axes, measure)
    axes.set_ylabel(f"{label(measure)} on\ntasks seen so far (%)")
    axes.set_xlabel("experiences learned")
    step = max(1, math.ceil(longest / 20))
    axes.set_xticks(range(1, longest + 1, step))
    axes.set_xlim(0.7, longest + 0.3)
    legend(figure, axes, width)
    return figure


def _strategy_lines(axes: Axes, series: Mapping[str, Line]) -> None:
    look = styles_of(series)
    for name, line in series.items():
        positions = range(1, len(line.means) + 1)
        shown = look[name].line(linewidth=1.8, markersize=5, markeredgewidth=0.6)
        # A thin rim keeps markers distinct where lines cross.
        if look[name].marker not in ("x", "+"):
            shown["markeredgecolor"] = PAPER
        axes.plot(positions, line.means, label=label(name), **shown)
        if line.low is not None and line.high is not None:
            axes.fill_between(
                positions, line.low, line.high, color=look[name].color, alpha=0.16, linewidth=0
            )
    axes.axhline(0, color=GRID, linewidth=0.8)
