"""Images of a lifetime: learning curves, evaluations, experts and transfer.

matplotlib is imported inside the functions, so that numbers alone never need it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clframe.metrics.l2.log_checks import Floats, Ints
from clframe.metrics.l2.result import L2Result, Series

# Okabe and Ito's colors, distinct to color-blind readers.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999933")
_MOST_POINTS = 4000  # per curve; more are not visible and make slow, large files


def draw_all(result: L2Result, folder: str | Path) -> list[Path]:
    """Draw every image that the result has data for, and return the files."""
    import matplotlib

    matplotlib.use("Agg")
    folder = Path(folder)
    drawn = [("l2_lifetime.png", draw_lifetime(result))]
    if result.num_ex:
        drawn.append(("l2_evaluations.png", draw_evaluations(result)))
    if result.expert_curves:
        drawn.append(("l2_experts.png", draw_experts(result)))
    if any(result.tasks[s][key] for s in result.tasks for key, _ in _transfer_keys(result)):
        drawn.append(("l2_transfer.png", draw_transfer(result)))
    return [_save(figure, folder / name) for name, figure in drawn]


def draw_lifetime(result: L2Result) -> Any:
    """Draw the measure as logged above, and the preprocessed curves with evaluations below."""
    figure, axes = _figure(2, 1, (11, 6.5), sharex=True)
    raw_axes, axes = axes[0][0], axes[1][0]
    colors = _task_colors(result)
    for series in result.series:
        if not series.train:
            continue
        x, raw = _thin(series.exp_num, series.raw)
        raw_axes.plot(x, raw, ".", ms=4, alpha=0.6, color=colors[series.task], mew=0)
        x, value = _thin(series.exp_num, series.value)
        axes.plot(x, value, lw=1.6, color=colors[series.task], solid_capstyle="round")
    for task, points in _evaluations(result).items():
        x = [float(s.exp_num.mean()) for s in points]
        style = {"ms": 4, "lw": 0.8, "alpha": 0.8, "mec": "white", "mew": 0.5}
        raw_axes.plot(x, [s.raw.mean() for s in points], "--o", color=colors[task], **style)
        axes.plot(x, [s.value.mean() for s in points], "--o", color=colors[task], **style)
    for axis in (raw_axes, axes):
        _shade_learning(axis, result, colors)
    raw_axes.set_ylabel(f"{result.measure} (as logged)")
    axes.set_ylabel(f"{result.measure} (preprocessed)")
    axes.set_xlabel("experience")
    raw_axes.set_title("Lifetime: learning (points, lines) and evaluation (circles)", loc="left")
    _legend(figure, colors)
    return figure


def draw_evaluations(result: L2Result) -> Any:
    """Draw one panel per task: mean and 95 % interval of each evaluation, learning shaded."""
    evaluations = {task: points for task, points in _evaluations(result).items() if points}
    colors = _task_colors(result)
    rows, columns = _grid(len(evaluations))
    figure, axes = _figure(
        rows, columns, (3.9 * columns, 2.5 * rows + 0.6), sharey=True, sharex=True
    )
    panels = [axis for line in axes for axis in line]
    for axis, (task, points) in zip(panels, evaluations.items(), strict=False):
        blocks = [s.block_num for s in points]
        means = np.array([s.value.mean() for s in points])
        reach = [
            1.96 * s.value.std(ddof=1) / np.sqrt(len(s.value)) if len(s.value) > 1 else 0.0
            for s in points
        ]
        for series in result.series:
            if series.train:
                same_task = series.task == task
                axis.axvspan(
                    series.block_num - 0.5,
                    series.block_num + 0.5,
                    lw=0,
                    color=colors[series.task],
                    alpha=0.30 if same_task else 0.07,
                )
        axis.errorbar(
            blocks, means, yerr=reach, fmt="-o", ms=4, lw=1.2, capsize=2, color=colors[task]
        )
        axis.set_title(task, loc="left", fontsize=10)
        axis.xaxis.get_major_locator().set_params(integer=True)
    for index, axis in enumerate(panels):
        if index >= len(evaluations):
            axis.set_axis_off()
        # A panel above an empty cell must show the numbers of the shared axis itself.
        axis.tick_params(labelbottom=index + columns >= len(evaluations))
    figure.supxlabel("block (dark: the task itself is learned; light: another one)", fontsize=10)
    figure.supylabel(f"{result.measure} (preprocessed)", fontsize=10)
    return figure


def draw_experts(result: L2Result) -> Any:
    """Draw each task's learning curve, blocks joined, next to the curves of its experts."""
    colors = _task_colors(result)
    tasks = [task for task in result.unique_tasks if task in result.expert_curves]
    rows, columns = _grid(len(tasks))
    figure, axes = _figure(rows, columns, (3.9 * columns, 2.6 * rows + 0.6), sharey=True)
    panels = [axis for line in axes for axis in line]
    for axis, task in zip(panels, tasks, strict=False):
        for number, curve in enumerate(result.expert_curves[task]):
            x, y = _thin(np.arange(len(curve)), curve)
            axis.plot(x, y, lw=1, color="0.45", alpha=0.8, label="expert" if not number else None)
        start = 0
        for series in (s for s in result.series if s.train and s.task == task):
            x, y = _thin(start + np.arange(len(series.value)), series.value)
            axis.plot(x, y, lw=1.6, color=colors[task], label=None if start else "lifetime")
            start += len(series.value)
            axis.axvline(start, ls=":", lw=0.8, color="0.6")
        rp, se = result.tasks[task]["ste_rel_perf"], result.tasks[task]["sample_efficiency"]
        numbers = ", ".join(
            f"{name} {value:.2f}" for name, value in (("RP", rp), ("SE", se)) if value is not None
        )
        axis.set_title(f"{task}   {numbers}", loc="left", fontsize=10)
        axis.legend(frameon=False, fontsize=8, loc="lower right")
    for axis in panels[len(tasks) :]:
        axis.set_axis_off()
    figure.supxlabel("learning experience of the task (dotted: end of a block)", fontsize=10)
    figure.supylabel(f"{result.measure} (preprocessed)", fontsize=10)
    return figure


def draw_transfer(result: L2Result) -> Any:
    """Draw the first transfer value of every pair of tasks, forward and backward, as heat maps."""
    keys = _transfer_keys(result)
    names = result.unique_tasks
    size = max(3.2, 0.55 * len(names) + 1.8)
    figure, axes = _figure(1, 2, (2 * size + 0.8, size))
    neutral = 0.0 if keys[0][0].endswith("contrast") else 1.0
    tables = []
    for key, _ in keys:
        table = np.full((len(names), len(names)), np.nan)
        for i, source in enumerate(names):
            for target, values in result.tasks[source][key].items():
                table[i, names.index(target)] = values[0]
        tables.append(table)
    reach = float(np.nanmax(np.abs(np.array(tables) - neutral))) or 1.0
    for axis, (_, title), table in zip(axes[0], keys, tables, strict=True):
        image = axis.imshow(table, cmap="RdBu", vmin=neutral - reach, vmax=neutral + reach)
        for i, j in np.argwhere(~np.isnan(table)):
            strong = abs(table[i, j] - neutral) > 0.6 * reach
            axis.text(
                j,
                i,
                f"{table[i, j]:.2f}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if strong else "black",
            )
        axis.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize=8)
        axis.set_yticks(range(len(names)), names, fontsize=8)
        axis.set_xlabel("evaluated task")
        axis.set_ylabel("learned task")
        axis.set_title(title, loc="left", fontsize=10)
        axis.spines[:].set_visible(False)
        axis.grid(visible=False)
    figure.colorbar(image, ax=list(axes[0]), shrink=0.8)
    return figure


def _transfer_keys(result: L2Result) -> list[tuple[str, str]]:
    kind = "contrast" if "forward_transfer_contrast" in result.lifetime else "ratio"
    return [
        (f"{d}_transfer_{kind}", f"{d.capitalize()} transfer ({kind})")
        for d in ("forward", "backward")
    ]


def _grid(panels: int) -> tuple[int, int]:
    """Return rows and columns: three columns, or two if that leaves fewer gaps."""
    columns = panels if panels <= 3 else 2 if panels == 4 else 3
    return -(-panels // columns), columns


def _figure(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    """Make a figure with a plain style that pyplot does not keep alive."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=110, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", lw=0.4, color="0.88")
        axis.set_axisbelow(True)
    return figure, axes


def _save(figure: Any, path: Path) -> Path:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    figure.savefig(temporary, format="png")
    os.replace(temporary, path)
    return path


def _task_colors(result: L2Result) -> dict[str, Any]:
    import matplotlib

    names = result.unique_tasks
    if len(names) <= len(_COLORS):
        return dict(zip(names, _COLORS, strict=False))
    palette = matplotlib.colormaps["turbo"]
    return {name: palette(i / (len(names) - 1)) for i, name in enumerate(names)}


def _legend(figure: Any, colors: dict[str, Any]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=color, lw=3, label=name) for name, color in colors.items()]
    columns = min(8, len(handles))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)


def _shade_learning(axis: Any, result: L2Result, colors: dict[str, Any]) -> None:
    for series in result.series:
        if series.train:
            axis.axvspan(
                series.exp_num[0], series.exp_num[-1], lw=0, alpha=0.06, color=colors[series.task]
            )


def _evaluations(result: L2Result) -> dict[str, list[Series]]:
    evaluations: dict[str, list[Series]] = {task: [] for task in result.unique_tasks}
    for series in result.series:
        if not series.train:
            evaluations[series.task].append(series)
    return evaluations


def _thin(x: Ints, y: Floats) -> tuple[Sequence[Any] | Ints, Floats]:
    step = -(-len(x) // _MOST_POINTS)
    return x[::step], y[::step]
