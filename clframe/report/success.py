"""LIBERO's success curves: FWT, NBT and AUC as areas (Liu et al., 2023, Fig. 3 and 12).

A panel per task. From left to right the task is learned, then the later ones. The area under the
learning curve, held at its best, is FWT. The area between that best and the later successes is NBT.
The whole area below, from the beginning to the end, is AUC.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clframe.core.matrix import BEFORE
from clframe.core.results import Result
from clframe.report.figure_style import GRID, HALF, INK, MUTED, label, new_figure, style
from clframe.report.styles import HUES, styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_PANELS = 20
_GAINED, _LOST = HUES[0], HUES[7]


@dataclass(frozen=True)
class SuccessCurve:
    """The curve of one task over a run.

    Args:
        task: Its name.
        learning: Success while it is learned, from before the first update to the last.
        later: Success after each later experience, NaN if it was not measured.
    """

    task: str
    learning: tuple[float, ...]
    later: tuple[float, ...]

    @property
    def best(self) -> int:
        """The earliest index of the best success while learning."""
        return self.learning.index(max(self.learning))

    @property
    def held(self) -> list[float]:
        """The learning curve, held at its best like in the metrics."""
        top = max(self.learning)
        return [x if i < self.best else top for i, x in enumerate(self.learning)]

    @property
    def fwt(self) -> float:
        """The mean of the held curve."""
        return math.fsum(self.held) / len(self.held)

    @property
    def nbt(self) -> float | None:
        """The mean loss over later experiences; None if none is known."""
        measured = [x for x in self.later if not math.isnan(x)]
        return (
            math.fsum(max(self.learning) - x for x in measured) / len(measured)
            if measured
            else None
        )


def success_curves(result: Result) -> list[SuccessCurve]:
    """Return the tasks of a run, in the order of learning; empty if learning was not measured.

    Earlier tasks are evaluated within a later curve where the metrics evaluate them: at the later
    task's best.
    """
    rows = [row for row in result.matrix.rows if row != BEFORE]
    cells = [
        line
        for row, line in zip(result.matrix.rows, result.matrix.cells, strict=True)
        if row != BEFORE
    ]
    if list(result.curves) != rows or len(rows) > len(result.matrix.columns):
        return []
    curves = []
    for start, row in enumerate(rows):
        task = result.matrix.columns[start]
        learning = result.curves[row].get(task)
        if not learning or any(x is None or math.isnan(x) for x in learning):
            return []
        later = []
        for after in range(start + 1, len(rows)):
            value = cells[after][start]
            on_the_way = result.curves[rows[after]].get(task)
            own = result.curves[rows[after]].get(result.matrix.columns[after])
            if on_the_way and own and len(on_the_way) == len(own):
                value = on_the_way[own.index(max(own))]
            later.append(math.nan if value is None else value)
        curves.append(SuccessCurve(task, tuple(learning), tuple(later)))
    return curves


def success_figure(
    curves: Sequence[SuccessCurve], measure: str = "success", width: float = HALF
) -> Figure:
    """Draw a panel per task with FWT, NBT and AUC as areas.

    Args:
        curves: The tasks.
        measure: Name of the values.
        width: Inches of the figure.
    """
    shown = list(curves)[:_MOST_PANELS]
    figure, panels = _panels(len(shown), width, measure)
    for index, (axes, curve) in enumerate(zip(panels, shown, strict=True)):
        top = max(curve.learning)
        count = len(curve.learning)
        learning = [i / max(count - 1, 1) for i in range(count)]
        later = [1 + (i + 1) for i in range(len(curve.later))]
        axes.fill_between(learning, curve.held, color=_GAINED, alpha=0.28, linewidth=0)
        positions, values = [1.0, *later], [top, *curve.later]
        axes.fill_between(positions, values, color=_GAINED, alpha=0.10, linewidth=0)
        if later:
            axes.fill_between(
                positions, values, [top] * len(positions), facecolor="none", edgecolor=_LOST,
                hatch="////", linewidth=0, alpha=0.75,
            )  # fmt: skip
        axes.plot(learning, curve.held, color=MUTED, linewidth=1, linestyle=(0, (2, 2)))
        axes.plot(learning, curve.learning, color=_GAINED, linewidth=1.6)
        axes.plot(
            positions, values, color=INK, linewidth=1.2, marker="o", markersize=3, clip_on=False
        )
        axes.axvline(1, color=GRID, linewidth=0.8)
        lost = "" if curve.nbt is None else f"  NBT {curve.nbt:.2f}"
        _title(axes, f"{index + 1} {curve.task}", f"FWT {curve.fwt:.2f}{lost}")
        _task_ticks(axes, index, len(later))
    _areas_legend(figure)
    return figure


def methods_figure(
    methods: Mapping[str, Sequence[SuccessCurve]], measure: str = "success", width: float = HALF
) -> Figure:
    """Draw a panel per task with the curves of several methods.

    Args:
        methods: For each method the same tasks, with the same number of later experiences.
        measure: Name of the values.
        width: Inches of the figure.
    """
    first = list(next(iter(methods.values())))[:_MOST_PANELS]
    figure, panels = _panels(len(first), width, measure)
    look = styles_of(methods)
    for index, (axes, task) in enumerate(zip(panels, first, strict=True)):
        for name, curves in methods.items():
            curve = curves[index]
            count = len(curve.learning)
            learning = [i / max(count - 1, 1) for i in range(count)]
            later = [1 + (i + 1) for i in range(len(curve.later))]
            positions, values = [*learning, *later], [*curve.held, *curve.later]
            marks = range(count - 1, len(positions))
            axes.plot(
                positions, values, label=label(name),
                **look[name].line(linewidth=1.4, markersize=3.5, markevery=list(marks)),
            )  # fmt: skip
        axes.axvline(1, color=GRID, linewidth=0.8)
        _title(axes, f"{index + 1} {task.task}", "")
        _task_ticks(axes, index, len(task.later))
    lines, names = panels[0].get_legend_handles_labels()
    figure.legend(
        lines, names, loc="outside upper right", frameon=False, fontsize=8.5, labelcolor=INK,
        ncols=max(1, min(len(names), int(width / 1.3))), handlelength=2.6,
    )  # fmt: skip
    return figure


def _panels(count: int, width: float, measure: str) -> tuple[Figure, list[Axes]]:
    across = min(count, max(2, int(width / 2.1)))
    down = math.ceil(count / across)
    across = math.ceil(count / down)  # Four are two by two, not three and one.
    figure = new_figure(width, 0.75 + 1.45 * down)
    panels = [figure.add_subplot(down, across, i + 1) for i in range(count)]
    for index, axes in enumerate(panels):
        style(axes, grid="y")
        axes.set_ylim(-0.03, 1.05)
        axes.set_yticks([0, 0.5, 1], ["0", "50", "100"] if index % across == 0 else [""] * 3)
        axes.tick_params(labelsize=8)
    figure.supylabel(f"{label(measure)} (%)", fontsize=9, color=INK)
    figure.supxlabel("learning the task | after each later one", fontsize=9, color=INK)
    return figure, panels


def _title(axes: Axes, left: str, right: str) -> None:
    axes.set_title(f"{label(left)}\n{right}" if right else label(left), fontsize=8.5, color=INK,
                   loc="left", linespacing=1.25)  # fmt: skip


def _task_ticks(axes: Axes, index: int, later: int) -> None:
    """Set the ticks: the number of the learned task up to 1, then one per later task."""
    step = max(1, math.ceil(later / 5))
    axes.set_xticks(
        [0.5, *(2 + i for i in range(0, later, step))],
        [str(index + 1), *(str(index + 2 + i) for i in range(0, later, step))],
    )
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(0, 1 + max(later, 0.02))


def _areas_legend(figure: Figure) -> None:
    from matplotlib.patches import Patch

    figure.legend(
        handles=[
            Patch(facecolor=_GAINED, alpha=0.28, label="FWT"),
            Patch(facecolor="none", edgecolor=_LOST, hatch="////", linewidth=0, label="NBT"),
            Patch(facecolor=_GAINED, alpha=0.12, label="with FWT: AUC"),
        ],
        loc="outside upper right", ncols=3, frameon=False, fontsize=8.5, labelcolor=INK,
    )  # fmt: skip
