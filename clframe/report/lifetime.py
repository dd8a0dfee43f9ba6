"""A lifetime with recurring tasks: learning blocks shaded, single-task experts dashed.

After Fig. 7 and 8 of New et al., "Lifelong Learning Metrics" (2022); the numbers are those of
`clframe l2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.core.matrix import BEFORE
from clframe.core.results import Result
from clframe.errors import ClframeError
from clframe.report.figure_style import HALF, INK, MUTED, PAPER, colors, label, new_figure, style
from clframe.runs.reader import LOG

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from clframe.metrics.l2.result import L2Result

_MOST_POINTS = 1500  # Of a line; more cannot be seen.


def tasks_come_back(result: Result) -> bool:
    """Return whether there are more successive experiences than tasks."""
    learned = sum(row != BEFORE for row in result.matrix.rows)
    return learned > len(result.matrix.columns)


def lifetime_of(folder: Path, experts: Sequence[Path] = ()) -> L2Result | str | None:
    """Return the L2 evaluation of a run's log, or None if it has no log.

    Args:
        folder: The run folder.
        experts: Folders of single-task experts, as `clframe ste` makes them.

    Returns:
        The evaluation, or a sentence that says why there is none.
    """
    from clframe.metrics.l2.evaluate import evaluate
    from clframe.metrics.l2.log_rows import LOGGER_FILE

    if not (folder / LOG / LOGGER_FILE).is_file():
        return None
    logs = [info.parent for path in experts for info in sorted(path.rglob(LOGGER_FILE))]
    try:
        return evaluate(folder / LOG, logs)
    except (ClframeError, OSError) as error:
        return f"The lifetime cannot be shown: {error}"


def lifetime_figure(result: L2Result, width: float = HALF) -> Figure:
    """Draw the performance over the lifetime: a line per learning block, a point per evaluation.

    Args:
        result: The evaluation of the lifetime, with experts' curves if there are any.
        width: Inches of the figure.
    """
    figure = new_figure(width, max(2.7, 0.36 * width))
    axes = figure.add_subplot()
    shade = dict(zip(result.unique_tasks, colors(len(result.unique_tasks)), strict=True))
    begun = dict.fromkeys(result.unique_tasks, 0)
    named: set[str] = set()
    dashed = False
    for series in result.series:
        color = shade[series.task]
        if not series.train:
            continue
        start, end = float(series.exp_num[0]), float(series.exp_num[-1])
        axes.axvspan(start, end, color=color, alpha=0.13, linewidth=0)
        step = -(-len(series.exp_num) // _MOST_POINTS)
        axes.plot(
            series.exp_num[::step], series.value[::step], color=color, linewidth=1.8,
            label="_" if series.task in named else label(series.task),
        )  # fmt: skip
        named.add(series.task)
        for curve in result.expert_curves.get(series.task, [])[:1]:
            values = curve[begun[series.task] : begun[series.task] + len(series.exp_num)]
            axes.plot(
                series.exp_num[: len(values)][::step], values[::step], color=INK, linewidth=1.1,
                linestyle=(0, (4, 2)), label="_" if dashed else "expert",
            )  # fmt: skip
            dashed = True
        begun[series.task] += len(series.exp_num)
    for task, color in shade.items():
        points = [s for s in result.series if not s.train and s.task == task]
        axes.plot(
            [float(s.exp_num.mean()) for s in points],
            [float(s.value.mean()) for s in points],
            color=color, marker="o", markersize=4, linewidth=0.9, linestyle=(0, (1, 1.5)),
            markeredgecolor=PAPER, markeredgewidth=0.5,
        )  # fmt: skip
    style(axes, grid="y")
    axes.margins(x=0.01)
    axes.set_xlabel("experiences of the lifetime")
    axes.set_ylabel(f"{label(result.measure)} (1-101)")
    axes.tick_params(labelcolor=INK, colors=MUTED)
    lines, names = axes.get_legend_handles_labels()
    longest = max(map(len, names), default=1)
    figure.legend(
        lines, names, loc="outside lower center", frameon=False, fontsize=8.5, labelcolor=INK,
        ncols=max(1, min(len(names), int(width / (0.65 + 0.07 * longest)))), handlelength=2.6,
    )  # fmt: skip
    return figure
