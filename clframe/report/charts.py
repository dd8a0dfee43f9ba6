"""Figures that compare strategies: bars per metric, and the spider chart of OpenLORIS-Object."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clframe.errors import SettingError
from clframe.report.canvas import GRID, INK, MUTED, colours, label, labels, new_figure, style
from clframe.report.names import format_value
from clframe.statistics import Summary

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
    shades = colours(len(names))
    for index, (metric, cells) in enumerate(metrics.items()):
        axes = figure.add_subplot(down, across, index + 1)
        for i, (cell, colour) in enumerate(zip(cells, shades, strict=True)):
            text = "-"
            if cell is not None:
                error = cell.standard_error
                axes.barh(i, cell.mean, height=0.66, color=colour)
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


def spider(series: Mapping[str, Mapping[str, float | None]]) -> Figure:
    """A closed line per method over spokes, as OpenLORIS-Object shows methods over metrics.

    Args:
        series: For each method its value on each spoke (metrics, or factors of a benchmark).

    Raises:
        SettingError: There are fewer than three spokes, or the methods have different ones.
    """
    spokes = list(next(iter(series.values()), {}))
    if len(spokes) < 3:
        raise SettingError("a spider chart needs at least three metrics or factors.")
    if any(list(values) != spokes for values in series.values()):
        raise SettingError("all methods of a spider chart need the same metrics or factors.")
    figure = new_figure(7.6, 4.4)
    # Room for the names by hand: the automatic layout does not see the labels of polar axes.
    figure.set_layout_engine("none")
    axes: Any = figure.add_subplot(projection="polar")  # its own methods are not in the type stubs
    angles = [2 * math.pi * i / len(spokes) for i in range(len(spokes))]
    for colour, (name, values) in zip(colours(len(series)), series.items(), strict=True):
        line = [math.nan if (x := values[spoke]) is None else x for spoke in spokes]
        closed = [*line, line[0]]
        axes.plot([*angles, angles[0]], closed, color=colour, linewidth=1.8, label=label(name))
        axes.plot(angles, line, color=colour, marker="o", markersize=3.5, linestyle="none")
        # Many filled areas over each other would only be grey.
        if len(series) <= 3 and not any(map(math.isnan, line)):
            axes.fill([*angles, angles[0]], closed, color=colour, alpha=0.08)
    known = [x for values in series.values() for x in values.values() if x is not None]
    axes.set_ylim(min([0.0, *known]), max([1.0, *known]))
    axes.set_theta_offset(math.pi / 2)
    axes.set_theta_direction(-1)
    axes.set_xticks(angles, labels(spokes))
    axes.tick_params(axis="x", labelcolor=INK, labelsize=9, pad=4)
    for angle, text in zip(angles, axes.get_xticklabels(), strict=True):
        side = math.sin(angle)  # 0 at the top and at the bottom, 1 on the right
        text.set_horizontalalignment(
            "center" if abs(side) < 0.1 else "left" if side > 0 else "right"
        )
    axes.tick_params(axis="y", labelcolor=MUTED, labelsize=7.5)
    axes.set_yticks([0.25, 0.5, 0.75, 1.0], ["25", "50", "75", "100"])
    axes.set_rlabel_position(180 / len(spokes))
    axes.grid(visible=True, color=GRID)
    axes.spines["polar"].set_color(GRID)
    axes.set_facecolor("none")
    axes.set_position((0.2, 0.1, 0.45, 0.8))
    figure.legend(loc="upper right", frameon=False, fontsize=8.5, labelcolor=INK)
    return figure
