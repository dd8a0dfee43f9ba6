"""The color, line and marker of each strategy: by its name, so the same in every figure and page.

Lines can be told apart without color too (in print, in gray, by color-blind eyes): strategies of
the same hue differ in their strokes, and neighbors in the palette in both strokes and markers.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

HUES = ("#3b7dd8", "#e0762c", "#1f9e77", "#c2508f", "#8a6fd1", "#a88a10", "#3aa6b9", "#d4504c")
"""Hues of middle lightness: readable on white and on black, apart for color-blind eyes."""
GRAY = "#7d8590"
"""For what is there to be compared with: the lower bound and the upper."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
_STROKES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5)))
_BOUNDS = {"naive": (1, "x"), "cumulative": (0, "*"), "joint": (2, "*")}
# Eight of the most used have hues of their own, the next eight share these in other strokes.
_KNOWN = (
    *("ewc", "replay", "lwf", "si", "mas", "gem", "agem", "icarl"),
    *("online_ewc", "er", "dgr", "der", "derpp", "slda", "packnet", "er_ace"),
)


@dataclass(frozen=True)
class Style:
    """How a strategy is drawn.

    Args:
        color: Of line, marker and bar.
        stroke: matplotlib's line style.
        marker: matplotlib's marker.
    """

    color: str
    stroke: Any
    marker: str

    def line(self, **further: Any) -> dict[str, Any]:
        """The arguments of a line in this style."""
        return {"color": self.color, "linestyle": self.stroke, "marker": self.marker, **further}


def style_of(name: str) -> Style:
    """The style of a strategy by its name alone.

    >>> style_of("ewc") == style_of("ewc"), style_of("ewc").color == style_of("replay").color
    (True, False)
    """
    return _style(name, 0)


def styles_of(names: Iterable[str]) -> dict[str, Style]:
    """The style of each name; where two would be alike, the one that comes later in the alphabet
    takes the next that is free.
    """  # noqa: D205
    found: dict[str, Style] = {}
    given = list(dict.fromkeys(names))
    # Strategies with a place in the list keep it, whatever else there is.
    for name in sorted(given, key=lambda name: (name not in _KNOWN, name)):
        turns = (_style(name, turn) for turn in range(len(HUES) * len(_STROKES)))
        found[name] = next((s for s in turns if s not in found.values()), _style(name, 0))
    return {name: found[name] for name in given}


def _style(name: str, turn: int) -> Style:
    if name in _BOUNDS and not turn:
        bound, mark = _BOUNDS[name]
        return Style(GRAY, _STROKES[bound], mark)
    known = name in _KNOWN
    place = _KNOWN.index(name) if known else zlib.crc32(name.encode())
    place += turn
    hue = place % len(HUES)
    # In the list a second round changes the stroke; other names are spread over all of them.
    stroke = hue + place // len(HUES)
    marker = hue if known else hue + 3
    return Style(HUES[hue], _STROKES[stroke % len(_STROKES)], _MARKERS[marker % len(_MARKERS)])
