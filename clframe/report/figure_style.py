"""The common look of all figures, and their conversion to files, bytes or parts of a page.

Figures are made with matplotlib's object interface, never pyplot, so no global state is changed and
no display is needed. matplotlib is imported with the first figure.
"""

from __future__ import annotations

import io
import re
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.errors import SettingError
from clframe.report.files import write_atomically
from clframe.report.styles import HUES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1f2328"
MUTED = "#656d76"
GRID = "#d8dee4"
PAPER = "#fefefe"
_THEME = {INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--grid)", PAPER: "var(--page)"}
"""Colors that follow the page (light, dark, print) when a figure is inserted."""

FORMATS = (".png", ".svg", ".pdf")
HALF, WHOLE = 4.6, 10.6
"""Inches of a figure at half the width of the page, and at the whole width."""
NARROW = 3.8
"""Inches of a figure on a page as narrow as a phone."""
COLUMN, COLUMNS = 3.4, 7.0
"""Inches of a figure in one column of a paper, and in both."""
_LEGEND_BELOW = 4.4  # In narrower figures a legend at the side would leave too little room.
_LONGEST_LABEL = 26


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, with a layout that avoids overlaps."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def style(axes: Axes, *, grid: str | None = None) -> None:
    """Style axes: no box, thin grid along `grid` ("x", "y" or None), ink for text."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GRID)
    axes.tick_params(colors=MUTED, labelcolor=INK, labelsize=9, length=3)
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
        text.set_color(INK)
    if grid is not None:
        axes.grid(visible=True, axis="x" if grid == "x" else "y", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)


def legend(figure: Figure, axes: Axes, width: float) -> None:
    """Put the legend next to the axes, or below them if the figure is narrow."""
    lines, names = axes.get_legend_handles_labels()
    if not names:
        return
    look = {"frameon": False, "fontsize": 8.5, "labelcolor": INK, "handlelength": 2.6}
    if width >= _LEGEND_BELOW:
        figure.legend(lines, names, loc="outside right upper", **look)
        return
    # A name of n characters takes about 0.065 n inches, its line and the space around it 0.65.
    across = max(1, int(width / (0.65 + 0.065 * max(map(len, names)))))
    figure.legend(
        lines, names, loc="outside lower center", ncols=min(across, len(names)),
        columnspacing=1.2, **look,
    )  # fmt: skip


def percent_axis(axes: Axes, measure: str) -> None:
    """Let y go from 0 to 100 percent of a measure."""
    axes.set_ylim(-0.03, 1.03)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
    axes.set_ylabel(f"{label(measure)} (%)")


def colors(count: int) -> list[str]:
    """Return colors for `count` lines: distinct hues for a few, an ordered blend for many."""
    if count <= len(HUES):
        return list(HUES[:count])
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    blend = LinearSegmentedColormap.from_list("order", [HUES[i] for i in (0, 6, 2, 5, 1, 7, 3)])
    return [to_hex(blend(i / (count - 1))) for i in range(count)]


def label(name: str) -> str:
    r"""Return a name as matplotlib text: one line, not too long, no formula mode.

    >>> label("cost_$x$")
    'cost_\\$x\\$'
    """
    text = "".join(c if c.isprintable() else " " for c in name)
    if len(text) > _LONGEST_LABEL:
        text = text[: _LONGEST_LABEL - 1] + "…"
    return text.replace("$", r"\$")


def labels(names: Sequence[str]) -> list[str]:
    """Return each name as a label."""
    return [label(name) for name in names]


def save(figure: Figure, path: Path, dpi: int = 150) -> None:
    """Write a figure as PNG, SVG or PDF, according to the file's extension.

    Args:
        figure: The figure.
        path: The file to write.
        dpi: Dots of a PNG per inch.

    Raises:
        SettingError: The name has another extension.
        RunFolderError: The file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise SettingError(f"{path} must end in one of {', '.join(FORMATS)}.")
    write_atomically(path, _render(figure, suffix[1:], dpi))


def to_png_bytes(figure: Figure, dpi: int = 150) -> bytes:
    """Return the figure as a PNG image on white."""
    return _render(figure, "png", dpi)


def to_svg(figure: Figure, alt: str) -> str:
    """Return the figure as an `<svg>` element for a page, in the page's own colors.

    Args:
        figure: The figure.
        alt: Description for people who cannot see it.
    """
    from html import escape

    text = _render(figure, "svg", transparent=True).decode("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for color, variable in _THEME.items():
        text = text.replace(color, variable)
    # Matplotlib names groups figure_1, axes_1, ... in every figure; a page needs unique ids.
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    token = f"f{zlib.crc32(text.encode()):08x}-"
    for before in ('id="', 'href="#', "url(#"):
        text = text.replace(before, before + token)
    # Width and height in points would fix the size; the viewBox keeps the shape at any width.
    head, rest = text.split(">", 1)
    width = re.search(r'width="([\d.]+)pt"', head)
    head = re.sub(r' (width|height|xmlns|xmlns:xlink|version)="[^"]*"', "", head)
    size = f' style="max-width:{float(width[1]) * 5 / 3:.0f}px"' if width else ""
    return f'{head} role="img" aria-label="{escape(alt)}"{size}>{rest}'


def _render(figure: Figure, kind: str, dpi: int = 150, *, transparent: bool = False) -> bytes:
    stream = io.BytesIO()
    # No date and no random identifiers, so that the same run gives the same bytes.
    undated = {"png": "Software", "svg": "Date", "pdf": "CreationDate"}[kind]
    with _quietly():
        figure.savefig(
            stream, format=kind, dpi=dpi, transparent=transparent, metadata={undated: None}
        )
    return stream.getvalue()


@contextmanager
def _quietly() -> Iterator[None]:
    import matplotlib

    with (
        warnings.catch_warnings(),
        # Text stays text in SVG. PDF embeds it as TrueType, which publishers ask for.
        matplotlib.rc_context(
            {"svg.hashsalt": "clframe", "svg.fonttype": "none", "pdf.fonttype": 42}
        ),
    ):
        # Names in a script that the font lacks become boxes in a PNG; that needs no warning.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message=".*constrained_layout not applied.*")
        yield
