"""The figures of studies.py."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grid
import numpy as np

from clframe.report.figure_style import INK, colors, label, new_figure, save, style

_BARS = {"fwt": "FWT", "nbt": "NBT (lower is better)", "auc": "AUC", "final": "final success"}

_LOSSES = [step * 10.0**power for power in range(-5, 4) for step in (1, 2, 5)]
"""Where an axis of losses is labeled."""


def write(figure: Any, path: Path) -> None:
    """Write a figure to a PNG file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)


def bars(found: grid.Found) -> Any:
    """A panel per metric, a bar per cell; a dot per seed."""
    names = list(found)
    figure = new_figure(9.0, 0.9 + 0.3 * len(names))
    panels = figure.subplots(1, len(_BARS), sharey=True)
    groups = list(dict.fromkeys(_group(name) for name in names))
    shade = dict(zip(groups, colors(len(groups)), strict=True))
    for panel, (metric, title) in zip(panels, _BARS.items(), strict=True):
        for place, name in enumerate(names):
            values = [run["libero"][metric] for run in found[name].values()]
            known = [value for value in values if value is not None]
            if known:
                mean, color = statistics.mean(known), shade[_group(name)]
                panel.barh(place, mean, color=color, alpha=0.55, height=0.66)
                panel.plot(known, [place] * len(known), "o", color=color, markersize=4)
        style(panel, grid="x")
        panel.set_title(title, fontsize=9.5, color=INK)
        panel.set_xlim(min(0.0, panel.get_xlim()[0]), 1.03)
    shown = [label(name.partition("_")[2].replace("-", ", ")) for name in names]
    panels[0].set_yticks(range(len(names)), shown)
    panels[0].invert_yaxis()
    return figure


def _group(cell: str) -> str:
    """Cells that differ in what follows the hyphen have one color."""
    return cell.partition("-")[0]


def loss_curves(run: dict[str, Any]) -> Iterator[tuple[str, list[float], list[float]]]:
    """The name, success and validation loss of each task, in order of epochs."""
    yield from zip(run["columns"], run["curves"], run["validation"], strict=True)


def loss_against_success(found: grid.Found) -> Any:
    """A panel per task: validation loss and success at each measurement, joined in order."""
    runs = [run for seeds in found.values() for run in seeds.values()]
    tasks = runs[0]["columns"]
    figure = new_figure(1.0 + 2.8 * len(tasks), 3.0)
    panels = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
    for color, run in zip(colors(len(runs)), runs, strict=True):
        for panel, (name, success, loss) in zip(panels, loss_curves(run), strict=True):
            panel.plot(loss, success, color=color, alpha=0.45, linewidth=1)
            sizes = np.linspace(10, 46, len(loss))
            panel.scatter(loss, success, s=sizes, color=color)
            panel.set_title(label(name.replace("_", " ")), fontsize=9, color=INK)
    for panel in panels:
        style(panel, grid="y")
        panel.set_ylim(-0.05, 1.05)
        panel.set_xscale("log")  # the first point, before learning, is far from the others
        low, high = panel.get_xlim()
        ticks = [tick for tick in _LOSSES if low <= tick <= high]
        panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        panel.set_xticks([], minor=True)
        panel.set_xlabel("loss on held-out demonstrations", fontsize=8.5)
    panels[0].set_ylabel("success; larger dots are later epochs", fontsize=8.5)
    return figure


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's correlation, equal values sharing their rank; None where one never varies.

    >>> rank_correlation([1, 2, 3], [9, 5, 1]), rank_correlation([1, 2], [0, 0])
    (-1.0, None)
    """
    ranks = [_ranks(np.asarray(values, float)) for values in (one, other)]
    if min(rank.std() for rank in ranks) == 0:
        return None
    return float(np.round(np.corrcoef(ranks[0], ranks[1])[0, 1], 12))


def _ranks(values: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The place of each value in order; the mean place of equal ones."""
    below = (values[:, None] > values).sum(1)
    equal = (values[:, None] == values).sum(1)
    places: np.ndarray[Any, np.dtype[np.float64]] = below + (equal - 1) / 2
    return places
