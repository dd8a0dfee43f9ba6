"""The spider chart of OpenLORIS-Object: methods as closed lines over metrics or factors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from clframe.errors import SettingError
from clframe.report.canvas import GRID, INK, MUTED, colors, label, labels, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Series: TypeAlias = "Mapping[str, Mapping[str, float | None]]"
"""For each method its value on each spoke (metrics, or factors of a benchmark)."""

_STROKES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)))


def spider(series: Series) -> Figure:
    """A closed line per method over spokes, as OpenLORIS-Object shows methods over metrics.

    Args:
        series: The methods' values.

    Raises:
        SettingError: There are fewer than three spokes, or the methods have different ones.
    """
    return spiders({"": series})


def spiders(panels: Mapping[str, Series]) -> Figure:
    """A spider chart for each of several settings (factors), side by side in one scale.

    Args:
        panels: The methods' values by the panel's title; all panels have the same methods.

    Raises:
        SettingError: There are fewer than three spokes, the methods have different ones, or the
            panels have different methods.
    """
    methods = list(next(iter(panels.values()), {}))
    if any(list(series) != methods for series in panels.values()):
        raise SettingError("all panels of a spider chart need the same methods.")
    for series in panels.values():
        _check(series)
    across = min(len(panels), 2)
    down = math.ceil(len(panels) / across)
    # Space for the names by hand: the automatic layout does not see the labels of polar axes.
    panel, legend, height = 5.4, 2.0, 4.4
    width = panel * across + legend
    figure = new_figure(width, height * down)
    figure.set_layout_engine("none")
    known = [x for s in panels.values() for values in s.values() for x in values.values()]
    bounds = [x for x in known if x is not None]
    for index, (title, series) in enumerate(panels.items()):
        left, bottom = panel * (index % across), height * (down - 1 - index // across)
        # In inches: a square in the middle of the panel, with the labels around it.
        side = 0.78 * height
        place = (left + (panel - side) / 2, bottom + 0.09 * height, side, side)
        axes: Any = figure.add_subplot(projection="polar")  # its methods are not in the type stubs
        axes.set_position([a / b for a, b in zip(place, (width, height * down) * 2, strict=True)])
        _draw(axes, series, (min([0.0, *bounds]), max([1.0, *bounds])))
        if title:
            x, y = (left + 0.25) / width, (bottom + 0.93 * height) / (height * down)
            figure.text(x, y, label(title), color=INK, fontsize=11, weight="bold")
        if index == 0:
            lines, names = axes.get_legend_handles_labels()
    figure.legend(
        lines, names, loc="upper right", frameon=False, fontsize=8.5, labelcolor=INK,
        handlelength=2.6,
    )  # fmt: skip
    return figure


def _check(series: Series) -> None:
    spokes = list(next(iter(series.values()), {}))
    if len(spokes) < 3:
        raise SettingError("a spider chart needs at least three metrics or factors.")
    if any(list(values) != spokes for values in series.values()):
        raise SettingError("all methods of a spider chart need the same metrics or factors.")


def _draw(axes: Any, series: Series, bounds: tuple[float, float]) -> None:
    """All methods of one panel."""
    spokes = list(next(iter(series.values())))
    angles = [2 * math.pi * i / len(spokes) for i in range(len(spokes))]
    # Beyond eight methods the colors come close, so line styles alternate as well.
    strokes = _STROKES if len(series) > 8 else _STROKES[:1]
    for index, (color, (name, values)) in enumerate(
        zip(colors(len(series)), series.items(), strict=True)
    ):
        line = [math.nan if (x := values[spoke]) is None else x for spoke in spokes]
        closed, around = [*line, line[0]], [*angles, angles[0]]
        stroke = strokes[index % len(strokes)]
        axes.plot(around, closed, color=color, linewidth=1.8, linestyle=stroke, label=label(name))
        axes.plot(angles, line, color=color, marker="o", markersize=3.5, linestyle="none")
        # Many filled areas over each other would only be gray.
        if len(series) <= 3 and not any(map(math.isnan, line)):
            axes.fill(around, closed, color=color, alpha=0.08)
    axes.set_ylim(*bounds)
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
