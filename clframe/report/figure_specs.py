"""A figure of a report before it is drawn: in one size for the page, in another for a paper."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clframe.report.figure_style import COLUMN, COLUMNS, FORMATS, HALF, NARROW, WHOLE, save, to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_DPI = 300  # Journals ask for this resolution.


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn at any width.

    Args:
        name: Name of its file, without an extension.
        draw: Draws it at a width in inches.
        alt: Description for people who cannot see it.
        caption: Text below it: what to look at.
        wide: Whether it needs the whole width of the page, or both columns of a paper.
        relaid: Whether it can be laid out again for a narrow page instead of being scrolled.
    """

    name: str
    draw: Callable[[float], Figure]
    alt: str
    caption: str = ""
    wide: bool = False
    relaid: bool = False

    @property
    def svg(self) -> str:
        """The figure as part of a page."""
        return to_svg(self.draw(WHOLE if self.wide else HALF), self.alt)

    @property
    def narrow_svg(self) -> str:
        """The figure as part of a page as narrow as a phone."""
        return to_svg(self.draw(NARROW), self.alt)


def save_drawings(drawings: Iterable[Drawing], folder: Path) -> list[Path]:
    """Write each figure as PNG, PDF and SVG, as wide as one or both columns of a paper.

    Args:
        drawings: The figures; figures with the same name are numbered.
        folder: Target folder; made if it does not exist.

    Raises:
        RunFolderError: A file cannot be written.
    """
    written: list[Path] = []
    taken: set[str] = set()
    for drawing in drawings:
        base = re.sub(r"[^\w.+-]+", "_", drawing.name).strip("._") or "figure"
        name, number = base, 1
        while name.lower() in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name.lower())
        figure = drawing.draw(COLUMNS if drawing.wide else COLUMN)
        for ending in FORMATS:
            path = folder / f"{name}{ending}"
            save(figure, path, _DPI)
            written.append(path)
    return written
