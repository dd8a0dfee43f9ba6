"""Trees of runs that were forked from each other, as lines of text and as a figure."""

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
    """A run in a tree.

    Args:
        run: The run.
        children: The runs forked from it, in the order of their forks.
        inside: Whether its parent is in the tree.
    """

    run: Run
    children: list[Life] = field(default_factory=list)
    inside: bool = False

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.run.folder.resolve().name

    @property
    def origin(self) -> dict[str, Any]:
        """The origin of the run; empty for the untrained model."""
        return self.run.result.fork or {}

    @property
    def at(self) -> int:
        """The number of experiences before the fork."""
        at = self.origin.get("at", 0)
        return at if isinstance(at, int) else 0

    @property
    def rows(self) -> list[str]:
        """The experiences that the run learned itself."""
        return [row for row in self.run.result.matrix.rows if row != BEFORE][self.at :]

    def walk(self) -> Iterator[Life]:
        """Yield it and all runs below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def families(runs: Sequence[Run]) -> list[Life]:
    """Return the trees among runs, without runs that have neither parent nor child."""
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
    """Return a sentence for each parent that is gone or has changed."""
    sentences = []
    for root in roots:
        for life in root.walk():
            if not life.origin:
                continue
            folder = life.run.folder.resolve()
            origin = Origin(_parent(folder, life), str(life.origin.get("sha256", "")))
            if origin.problem is not None:
                sentences.append(
                    f"{life.name}: its parent '{life.origin.get('run')}' {origin.problem}"
                )
    return sentences


def words_of(roots: Sequence[Life]) -> str:
    """Return the numbers of runs and experiences as text."""
    lives = [life for root in roots for life in root.walk()]
    learned = sum(len(life.rows) for life in lives)
    total = sum(life.at + len(life.rows) for life in lives)
    return f"{len(lives)} lifetimes, {learned} experiences learned of {total}"


def as_lines(roots: Sequence[Life]) -> list[str]:
    """Return the trees as lines for a terminal.

    A child is below its parent, with the experiences that it learned itself.
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
    changed = "".join(f"  {word}" for word in changes(life, parent))
    return f"{life.name}{start}: {' '.join(life.rows)}{changed}{number}"


def changes(life: Life, parent: Life | None) -> list[str]:
    """Return the changes from the parent; for the first of a tree, its strategy."""
    changed = life.origin.get("changed")
    changed = [str(setting) for setting in changed] if isinstance(changed, list) else []
    other = any(setting.startswith("strategy=") for setting in changed)
    left_out = (_ORDER, "strategy.") if other else (_ORDER,)
    others = [setting for setting in changed if not setting.startswith(left_out)]
    if parent is None and not other:
        others.insert(0, life.run.result.strategy)
    shown = others[:_MOST_CHANGES]
    return [*shown, "..."] if len(others) > len(shown) else shown


# ---------------------------------------------------------------- the figure


def family_figure(roots: Sequence[Life], width: float = HALF) -> Figure:
    """Draw the trees as lines from left to right: a run leaves its parent's line at the fork.

    Args:
        roots: The trees.
        width: Inches of the figure.
    """
    lives = [life for root in roots for life in root.walk()]
    figure = new_figure(width, 0.55 + 0.5 * len(lives))
    axes = figure.subplots()
    hues = dict(zip(map(id, lives), colors(len(lives)), strict=True))
    heights: dict[int, int] = {}
    longest = max(life.at + len(life.rows) for life in lives)
    across = longest * 1.28 + 0.45
    room = max(4, int(width / across * 13))  # Characters above a step.
    for root in roots:
        for life in root.walk():
            heights[id(life)] = height = len(heights)
            _draw(axes, life, height, hues[id(life)], room)
        for life in root.walk():
            for child in life.children:
                _join(axes, child, heights[id(life)], heights[id(child)], hues[id(child)])
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


def _draw(axes: Axes, life: Life, height: int, color: str, room: int) -> None:
    """Draw a run from its fork on: a point for each experience, its name above the step."""
    end = life.at + len(life.rows)
    first = life.at if not life.inside else life.at + 0.35
    axes.plot([first, end], [height, height], color=color, linewidth=2.2, solid_capstyle="round")
    steps = range(life.at + 1, end + 1)
    axes.plot(steps, [height] * len(steps), "o", color=color, markersize=4.5)
    for step, row in zip(steps, life.rows, strict=True):
        name = label(row) if len(row) <= room else f"{row[: room - 1]}…"
        axes.text(step - 0.08, height - 0.16, name, color=MUTED, fontsize=8, ha="right")
    value = life.run.metrics.get(_METRIC)
    number = "" if value is None else f"  {format_value(value, 3)}"
    axes.text(end + 0.15, height, f"{life.name}{number}", color=INK, fontsize=9, va="center")


def _join(axes: Axes, child: Life, above: int, height: int, color: str) -> None:
    """Draw the line from the parent down to the child."""
    axes.plot(
        [child.at, child.at, child.at + 0.35],
        [above, height - 0.3, height],
        color=color,
        linewidth=1.4,
        solid_joinstyle="round",
    )
