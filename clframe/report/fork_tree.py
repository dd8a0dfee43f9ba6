"""Runs that were forked from each other, as a tree: in lines of text, and as a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clframe.core.matrix import BEFORE
from clframe.report.figure_style import GRID, HALF, INK, MUTED, colors, label, new_figure
from clframe.report.metric_formats import format_value
from clframe.runs.fork_source import Origin
from clframe.runs.reader import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_METRIC = "gem.acc"
_ORDER = "trainer.experience_order="
_MOST_CHANGES = 3


@dataclass
class Life:
    """One run in a tree.

    Args:
        run: The run.
        children: Those forked from it, in order of where.
        inside: Whether its parent is in the tree.
    """

    run: Run
    children: list[Life] = field(default_factory=list)
    inside: bool = False

    @property
    def name(self) -> str:
        """Of its folder."""
        return self.run.folder.resolve().name

    @property
    def origin(self) -> dict[str, Any]:
        """Where it began; empty for the untrained model."""
        return self.run.result.fork or {}

    @property
    def at(self) -> int:
        """After how many experiences it began."""
        at = self.origin.get("at", 0)
        return at if isinstance(at, int) else 0

    @property
    def rows(self) -> list[str]:
        """The experiences that it learned itself."""
        return [row for row in self.run.result.matrix.rows if row != BEFORE][self.at :]

    def walk(self) -> Iterator[Life]:
        """It and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def families(runs: Sequence[Run]) -> list[Life]:
    """The trees among runs; runs that have neither parent nor child are left out."""
    lives = {run.folder.resolve(): Life(run) for run in runs}
    roots = []
    for folder, life in lives.items():
        parent = lives.get(_parent(folder, life)) if life.origin else None
        if parent is None or parent is life:
            roots.append(life)
        else:
            life.inside = True
            parent.children.append(life)
    for life in lives.values():
        life.children.sort(key=lambda child: (child.at, child.name))
    return [root for root in roots if root.children or root.origin]


def _parent(folder: Path, life: Life) -> Path:
    return (folder / str(life.origin.get("run", "."))).resolve()


def troubles(roots: Sequence[Life]) -> list[str]:
    """A sentence on each parent that is gone or is not what it was."""
    found = []
    for root in roots:
        for life in root.walk():
            if not life.origin:
                continue
            folder = life.run.folder.resolve()
            origin = Origin(_parent(folder, life), str(life.origin.get("sha256", "")))
            if origin.problem is not None:
                found.append(f"{life.name}: its parent '{life.origin.get('run')}' {origin.problem}")
    return found


def words_of(roots: Sequence[Life]) -> str:
    """How many runs and experiences there are."""
    lives = [life for root in roots for life in root.walk()]
    learned = sum(len(life.rows) for life in lives)
    total = sum(life.at + len(life.rows) for life in lives)
    return f"{len(lives)} lifetimes, {learned} experiences learned of {total}"


def as_lines(roots: Sequence[Life]) -> list[str]:
    """The trees for a terminal.

    The lines of a child stand below its parent's, with what it learned itself.
    """
    lines = [words_of(roots)]
    for root in roots:
        lines.append(_line(root))
        lines += _below(root, "")
    return [*lines, *(f"note: {sentence}" for sentence in troubles(roots))]


def _below(life: Life, indent: str) -> Iterator[str]:
    for child in life.children:
        last = child is life.children[-1]
        yield f"{indent}{'└─ ' if last else '├─ '}{_line(child, life)}"
        yield from _below(child, f"{indent}{'   ' if last else '│  '}")


def _line(life: Life, parent: Life | None = None) -> str:
    start = ""
    if life.origin:
        where = "" if life.inside else f" of '{life.origin.get('run')}'"
        start = f" after {life.at} ({life.origin.get('experience')}){where}"
    value = life.run.metrics.get(_METRIC)
    number = "" if value is None else f"  {_METRIC} {format_value(value)}"
    what = "".join(f"  {word}" for word in changes(life, parent))
    return f"{life.name}{start}: {' '.join(life.rows)}{what}{number}"


def changes(life: Life, parent: Life | None) -> list[str]:
    """What is other than in the parent; of the first of a tree, its strategy."""
    given = life.origin.get("changed")
    given = [str(word) for word in given] if isinstance(given, list) else []
    other = any(word.startswith("strategy=") for word in given)
    left_out = (_ORDER, "strategy.") if other else (_ORDER,)
    words = [word for word in given if not word.startswith(left_out)]
    if parent is None and not other:
        words.insert(0, life.run.result.strategy)
    shown = words[:_MOST_CHANGES]
    return [*shown, "..."] if len(words) > len(shown) else shown


# ---------------------------------------------------------------- the figure


def family_figure(roots: Sequence[Life], width: float = HALF) -> Figure:
    """The trees as lines from left to right: a lifetime leaves its parent's where it began.

    Args:
        roots: The trees.
        width: Inches of the figure.
    """
    lives = [life for root in roots for life in root.walk()]
    figure = new_figure(width, 0.55 + 0.5 * len(lives))
    axes = figure.subplots()
    hues = dict(zip(map(id, lives), colors(len(lives)), strict=True))
    places: dict[int, int] = {}
    longest = max(life.at + len(life.rows) for life in lives)
    across = longest * 1.28 + 0.45
    room = max(4, int(width / across * 13))  # characters above a step
    for root in roots:
        for life in root.walk():
            places[id(life)] = place = len(places)
            _draw(axes, life, place, hues[id(life)], room)
        for life in root.walk():
            for child in life.children:
                _join(axes, child, places[id(life)], places[id(child)], hues[id(child)])
    axes.set_xlim(-0.15, across - 0.15)
    axes.set_ylim(len(lives) - 0.45, -0.75)
    axes.set_yticks([])
    axes.set_xticks(range(longest + 1))
    axes.set_xlabel("experiences learned", color=INK, fontsize=9)
    axes.tick_params(colors=MUTED, labelcolor=INK, labelsize=9, length=3)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    return figure


def _draw(axes: Axes, life: Life, place: int, color: str, room: int) -> None:
    """A lifetime from where it began: a point for each experience, its name above the step."""
    end = life.at + len(life.rows)
    first = life.at if not life.inside else life.at + 0.35
    axes.plot([first, end], [place, place], color=color, linewidth=2.2, solid_capstyle="round")
    steps = range(life.at + 1, end + 1)
    axes.plot(steps, [place] * len(steps), "o", color=color, markersize=4.5)
    for step, row in zip(steps, life.rows, strict=True):
        name = label(row) if len(row) <= room else f"{row[: room - 1]}…"
        axes.text(step - 0.08, place - 0.16, name, color=MUTED, fontsize=8, ha="right")
    value = life.run.metrics.get(_METRIC)
    number = "" if value is None else f"  {format_value(value, 3)}"
    axes.text(end + 0.15, place, f"{life.name}{number}", color=INK, fontsize=9, va="center")


def _join(axes: Axes, child: Life, above: int, place: int, color: str) -> None:
    """From a place on the parent's line down to the child's."""
    axes.plot(
        [child.at, child.at, child.at + 0.35],
        [above, place - 0.3, place],
        color=color,
        linewidth=1.4,
        solid_joinstyle="round",
    )
