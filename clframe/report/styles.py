"""The color, line and marker of each strategy: by name, so the same in every figure and page.

Lines are distinguishable without color too (in print, in gray, by color-blind people): strategies
of the same hue differ in their strokes, and neighbors in the palette in both strokes and markers.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

HUES = ("#3b7dd8", "#e0762c", "#1f9e77", "#c2508f", "#8a6fd1", "#a88a10", "#3aa6b9", "#d4504c")
"""Hues of middle lightness: readable on white and on black, distinct for color-blind people."""
GRAY = "#7d8590"
"""For baselines: the lower bound and the upper."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
_STROKES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5)))
_BOUNDS = {"naive": (1, "x"), "cumulative": (0, "*"), "joint": (2, "*")}
# Eight of the most used have their own hues; the next eight share these with other strokes.
_KNOWN = (
    *("ewc", "replay", "lwf", "si", "mas", "gem", "agem", "icarl"),
    *("online_ewc", "er", "dgr", "der", "derpp", "slda", "packnet", "er_ace"),
)


@dataclass(frozen=True)
class Style:
    """The style of a strategy.

    Args:
        color: Color of line, marker and bar.
        stroke: matplotlib's line style.
        marker: matplotlib's marker.
    """

    color: str
    stroke: Any
    marker: str

    def line(self, **further: Any) -> dict[str, Any]:
        """Return the arguments of a line in this style."""
        return {"color": self.color, "linestyle": self.stroke, "marker": self.marker, **further}


def style_of(name: str) -> Style:
    """Return the style of a strategy by its name alone.

    >>> style_of("ewc") == style_of("ewc"), style_of("ewc").color == style_of("replay").color
    (True, False)
    """
    return _style(name, 0)


def styles_of(names: Iterable[str]) -> dict[str, Style]:
    """Return the style of each name; of two equal styles, the later name takes the next one."""
    styles: dict[str, Style] = {}
    unique = list(dict.fromkeys(names))
    # Strategies with a place in the list keep it, regardless of the others.
    for name in sorted(unique, key=lambda name: (name not in _KNOWN, name)):
        turns = (_style(name, turn) for turn in range(len(HUES) * len(_STROKES)))
        styles[name] = next((s for s in turns if s not in styles.values()), _style(name, 0))
    return {name: styles[name] for name in unique}


def _style(name: str, turn: int) -> Style:
    if name in _BOUNDS and not turn:
        bound, mark = _BOUNDS[name]
        return Style(GRAY, _STROKES[bound], mark)
    listed = name in _KNOWN
    index = _KNOWN.index(name) if listed else zlib.crc32(name.encode())
    index += turn
    hue = index % len(HUES)
    # In the list a second round changes the stroke; other names are spread over all strokes.
    stroke = hue + index // len(HUES)
    marker = hue if listed else hue + 3
    return Style(HUES[hue], _STROKES[stroke % len(_STROKES)], _MARKERS[marker % len(_MARKERS)])
