"""The spider chart of OpenLORIS-Object: methods as closed lines over metrics or factors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from clframe.errors import SettingError
from clframe.report.figure_style import GRID, HALF, INK, MUTED, label, labels, new_figure
from clframe.report.styles import Style, styles_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Series: TypeAlias = "Mapping[str, Mapping[str, float | None]]"
"""For each method its value on each spoke (metrics, or factors of a benchmark)."""


def spider(series: Series, width: float = HALF) -> Figure:
    """Draw a closed line per method over spokes, as OpenLORIS-Object shows methods over metrics.

    Args:
        series: The methods' values.
        width: Inches of the figure.

    Raises:
        SettingError: There are fewer than three spokes, or the methods have different ones.
    """
    return spiders({"": series}, width)


def spiders(panels: Mapping[str, Series], width: float | None = None) -> Figure:
    """Draw a spider chart for each of several settings (factors), side by side on one scale.

    Args:
        panels: The methods' values by the panel's title; all panels have the same methods.
        width: Inches of the figure; None for the width of up to two panels side by side.

    Raises:
        SettingError: There are fewer than three spokes, the methods have different ones, or the
            panels have different methods.
    """
    methods = list(next(iter(panels.values()), {}))
    if any(list(series) != methods for series in panels.values()):
        raise SettingError("all panels of a spider chart need the same methods.")
    for series in panels.values():
        _check(series)
    width = width or HALF * min(len(panels), 2)
    # Space for the names is set by hand: the automatic layout ignores labels of polar axes.
    longest = max(len(label(spoke)) for s in panels.values() for v in s.values() for spoke in v)
    margin = 0.12 + 0.075 * longest
    across = max(1, min(len(panels), int(width / (2 * margin + 1.7))))
    down = math.ceil(len(panels) / across)
    panel = width / across
    side = max(1.1, min(panel - 2 * margin, 3.4))
    named = max(map(len, labels(methods)))
    columns = max(1, min(len(methods), int(width / (0.75 + 0.07 * named))))
    below = 0.2 + 0.19 * math.ceil(len(methods) / columns)
    head = 0.62 if any(panels) else 0.34
    height = down * (side + head + 0.34) + below
    figure = new_figure(width, height)
    figure.set_layout_engine("none")
    values_of_all = [x for s in panels.values() for values in s.values() for x in values.values()]
    bounds = [x for x in values_of_all if x is not None]
    look = styles_of(methods)
    # Up to the next quarter: if all values are low, the full scale would hide differences.
    top = max(0.25, math.ceil(4 * max(bounds, default=1.0)) / 4)
    for index, (title, series) in enumerate(panels.items()):
        left = panel * (index % across)
        upper = height - (side + head + 0.34) * (index // across)
        # In inches: a square in the middle of the panel, with the labels around it.
        box = (left + (panel - side) / 2, upper - head - side, side, side)
        axes: Any = figure.add_subplot(projection="polar")  # Its methods are not in the type stubs.
        axes.set_position([a / b for a, b in zip(box, (width, height) * 2, strict=True)])
        _draw(axes, series, (min([0.0, *bounds]), top), look)
        if title:
            x, y = (left + panel / 2) / width, (upper - 0.2) / height
            figure.text(x, y, label(title), color=INK, fontsize=10.5, weight="bold", ha="center")
        if index == 0:
            lines, names = axes.get_legend_handles_labels()
    figure.legend(
        lines, names, loc="lower center", ncols=columns, frameon=False, fontsize=8.5,
        labelcolor=INK, handlelength=2.8,
    )  # fmt: skip
    return figure


def _check(series: Series) -> None:
    spokes = list(next(iter(series.values()), {}))
    if len(spokes) < 3:
        raise SettingError("a spider chart needs at least three metrics or factors.")
    if any(list(values) != spokes for values in series.values()):
        raise SettingError("all methods of a spider chart need the same metrics or factors.")


def _draw(
    axes: Any, series: Series, bounds: tuple[float, float], look: Mapping[str, Style]
) -> None:
    """Draw all methods of one panel."""
    spokes = list(next(iter(series.values())))
    angles = [2 * math.pi * i / len(spokes) for i in range(len(spokes))]
    for name, values in series.items():
        line = [math.nan if (x := values[spoke]) is None else x for spoke in spokes]
        closed, around = [*line, line[0]], [*angles, angles[0]]
        shown = look[name].line(linewidth=1.8, markersize=4.5)
        axes.plot(around, closed, label=label(name), **shown)
        # Many overlapping filled areas would only be gray.
        if len(series) <= 3 and not any(map(math.isnan, line)):
            axes.fill(around, closed, color=look[name].color, alpha=0.08)
    axes.set_ylim(*bounds)
    axes.set_theta_offset(math.pi / 2)
    axes.set_theta_direction(-1)
    axes.set_xticks(angles, labels(spokes))
    axes.tick_params(axis="x", labelcolor=INK, labelsize=9, pad=4)
    for angle, text in zip(angles, axes.get_xticklabels(), strict=True):
        side = math.sin(angle)  # 0 at the top and at the bottom, 1 on the right.
        text.set_horizontalalignment(
            "center" if abs(side) < 0.1 else "left" if side > 0 else "right"
        )
    axes.tick_params(axis="y", labelcolor=MUTED, labelsize=7.5)
    step = {0.25: 0.05, 0.5: 0.1}.get(bounds[1], 0.25)
    ticks = [step * i for i in range(1, round(bounds[1] / step) + 1)]
    axes.set_yticks(ticks, [f"{100 * tick:.3g}" for tick in ticks])
    axes.set_rlabel_position(180 / len(spokes))
    axes.grid(visible=True, color=GRID)
    axes.spines["polar"].set_color(GRID)
    axes.set_facecolor("none")
