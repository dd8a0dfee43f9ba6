"""A run or a sweep as lines of text for a terminal."""

from __future__ import annotations

import itertools
import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import Any

from clframe.utils.console import matrix_table, truncate
from clframe.utils.eta import duration
from clframe.watch.resolve import last_mean
from clframe.watch.run import RUNNING

_BLOCKS = ("▁▂▃▄▅▆▇█", "█", "░")
_PLAIN = (".:-=+*%#", "#", "-")
_BAR = 30


def draw(
    view: Mapping[str, Any],
    width: int,
    height: int | None = None,
    color: bool = False,
    blocks: bool = True,
) -> list[str]:
    """Return the lines of a view.

    Args:
        view: View of a run or a sweep.
        width: Number of columns.
        height: Number of lines; None for no limit.
        color: Whether cells are shaded.
        blocks: Whether the terminal shows block characters.
    """
    if view["kind"] == "run":
        return _of_run(view, width, height, color, blocks)
    lines = _of_sweep(view, width, None if height is None else max(5, height // 2))
    if view["run"] is not None:
        room = None if height is None else height - len(lines) - 1
        lines += ["", *_of_run(view["run"], width, room, color, blocks)]
    return lines


def place(view: Mapping[str, Any]) -> str:
    """Return one line on what a run does now and how long it will take."""
    if view["state"] != RUNNING:
        return str(view["sentence"])
    left = time_left(view)
    return f"{view['now']}, {left}" if left else str(view["now"])


def time_left(view: Mapping[str, Any]) -> str:
    """Return the time left for the stream as text; empty if unknown."""
    if view.get("left") is None:
        return ""
    return f"about {duration(max(0.0, view['left'] - (time.time() - view['at'])))} left"


def title(view: Mapping[str, Any]) -> str:
    """Return the name of the run."""
    return (
        f"{view['strategy'] or 'a run'} on {view['stream'] or '?'} "
        f"({view['scenario'] or '?'}-incremental, seed {view['seed']})"
    )


def _of_run(
    view: Mapping[str, Any], width: int, height: int | None, color: bool, blocks: bool
) -> list[str]:
    sparks, full, empty = _BLOCKS if blocks else _PLAIN
    lines = [*_wrapped(title(view), width), *_wrapped(f"folder: {view['folder']}", width)]
    running = view["state"] == RUNNING
    lines += _wrapped(view["now"] if running else view["sentence"], width)
    if running and view["left"] is not None:
        share = _share(view)
        done = round(share * _BAR)
        spent = duration(view["seconds"] + time.time() - view["at"])
        bar = f"{full * done}{empty * (_BAR - done)} {share:4.0%}"
        lines += _wrapped(f"{bar}  {spent} so far, {time_left(view)}", width)
    curves = _curves(view, width, sparks)
    metrics = [f"{name} {value:.3f}" for name, value in view["metrics"].items()]
    after = [*([""] if curves else []), *curves, *_wrapped("   ".join(metrics), width)]
    if not view["measured"]:
        return [*lines, *after]
    head = f"{view['measure']} on each task (columns) after each experience (rows):"
    lines += ["", *_wrapped(head, width), ""]
    room = None if height is None else max(3, height - len(lines) - len(after))
    return [*lines, *_matrix(view, width, room, color), *after]


def _share(view: Mapping[str, Any]) -> float:
    age = time.time() - view["at"]
    spent, left = view["seconds"] + age, max(0.0, view["left"] - age)
    return float(spent / max(spent + left, 1e-9))


def _matrix(view: Mapping[str, Any], width: int, room: int | None, color: bool) -> list[str]:
    """Return the matrix with empty rows for the future, if they fit; else its newest rows."""
    pairs = list(zip(view["rows"], view["values"], strict=True))
    lines: list[str] = []
    for chosen in (pairs, [pair for pair in pairs if pair[0] in view["measured"]]):
        while chosen:
            rows, values = zip(*chosen, strict=True)
            named = [row if row in view["columns"] else truncate(row, 24) for row in rows]
            lines = matrix_table(named, view["columns"], values, color, width).splitlines()
            if room is None or len(lines) <= room:
                return lines
            if chosen is pairs:
                break
            chosen = chosen[1:]
    return lines[:room]


def _curves(view: Mapping[str, Any], width: int, sparks: str) -> list[str]:
    """Return the loss by epoch, and the mean of each row of the matrix."""
    lines = []
    losses = [point[1] for point in view["losses"]]
    means = row_means(view)
    for name, values in (("loss", losses), (f"mean {view['measure']}", means)):
        if len(values) > 1:
            label, last = f"{truncate(name, 15):<16}", f"  {values[-1]:.4g}"
            line = sparkline(values, max(8, width - len(label) - len(last)), sparks)
            lines.append(f"{label}{line}{last}")
    return lines


def row_means(view: Mapping[str, Any]) -> list[float]:
    """Return the mean over tasks of every measured row."""
    means = []
    for row, values in zip(view["rows"], view["values"], strict=True):
        measured = [value for value in values if value is not None]
        if row in view["measured"] and measured:
            means.append(sum(measured) / len(measured))
    return means


def sparkline(values: Sequence[float], width: int, sparks: str) -> str:
    """Draw a curve in one line; values that share a column are averaged.

    >>> sparkline([0, 1, 2, 3], 4, ".:-=")
    '.:-='
    """
    count = min(len(values), width)
    edges = [round(i * len(values) / count) for i in range(count + 1)]
    shown = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges) if b > a]
    least, spread = min(shown), (max(shown) - min(shown)) or 1.0
    return "".join(sparks[round((v - least) / spread * (len(sparks) - 1))] for v in shown)


def _of_sweep(view: Mapping[str, Any], width: int, room: int | None) -> list[str]:
    runs = list(view["runs"])
    lines = _wrapped(
        view["sentence"] or f"sweep: {view['finished']} of {len(runs)} runs finished", width
    )
    lines += [*_wrapped(f"folder: {view['folder']}", width), ""]
    if room is not None and len(runs) > room:
        # The runs that are running or ended last; the others are only counted above.
        kept = sorted(runs, key=lambda run: float(run["at"]))[-room:]
        runs = [run for run in runs if run in kept]
    widest = min(max((len(run["name"]) for run in runs), default=0), max(12, width - 46))
    for run in runs:
        lines.append(_sweep_line(run, widest)[:width].rstrip())
    return lines


def _sweep_line(run: Mapping[str, Any], widest: int) -> str:
    learned = f"{run['learned']}/{run['experiences']}" if run["experiences"] else ""
    mean = "" if run["mean"] is None else f"mean {run['mean']:.3f}"
    last = time_left(run) or run["why"]
    name = f"{truncate(run['name'], widest):<{widest}}"
    return f"{name}  {run['state']:<9} {learned:>6}  {mean:<10}  {last}"


def change(before: Mapping[str, Any] | None, view: Mapping[str, Any]) -> list[str]:
    """Return lines for the changes between two views, for output that cannot be redrawn."""
    lines: list[str] = []
    if view["kind"] == "sweep":
        old = {run["name"]: run for run in before["runs"]} if before else {}
        for run in view["runs"]:
            previous = old.get(run["name"], {"state": "waiting", "learned": 0})
            if (run["state"], run["learned"]) != (previous["state"], previous["learned"]):
                lines.append(_sweep_line(run, len(run["name"])).rstrip())
        return lines
    if before is None:
        lines += [title(view), f"folder: {view['folder']}"]
    measured = before["measured"] if before else []
    for row, values in zip(view["rows"], view["values"], strict=True):
        if row in view["measured"] and row not in measured:
            row_view = {**view, "rows": [row], "values": [values], "measured": [row]}
            mean = last_mean(row_view)
            cells = " ".join("-" if v is None else f"{v:.3f}" for v in values)
            lines.append(f"{row}: mean {view['measure']} {mean or 0:.3f}  ({cells})")
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 20), subsequent_indent="  ", break_on_hyphens=False)
