"""The content of a page as plain data; templates define its look.

A page has sections, and a section has blocks. The `kind` of each block is the name of the macro in
`blocks.html` that writes it. Texts are plain; the templates escape them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from clframe.report.figure_specs import Drawing


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Args:
        text: Its text.
        mark: "best" or "same" (not distinguished from the best); empty for neither.
        note: Further information: an interval, a test.
    """

    text: str
    mark: str = ""
    note: str = ""


@dataclass(frozen=True)
class Head:
    """The heading of a column or a row.

    Args:
        text: Its text.
        note: Its meaning, in small print.
        code: Whether it is a name that can be typed.
    """

    text: str
    note: str = ""
    code: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under headings; the first heading is for the rows' own headings."""

    kind: ClassVar[str] = "table"
    label: str
    heads: Sequence[Head]
    rows: Sequence[tuple[Head, Sequence[Cell]]]
    caption: str = ""


@dataclass(frozen=True)
class Figures:
    """Figures side by side, if there is room."""

    kind: ClassVar[str] = "figures"
    drawings: Sequence[Drawing]


@dataclass(frozen=True)
class Notes:
    """Sentences to read before the numbers."""

    kind: ClassVar[str] = "notes"
    sentences: Sequence[str]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True)
class Pairs:
    """Names and values."""

    kind: ClassVar[str] = "pairs"
    title: str
    entries: Mapping[str, str]


@dataclass(frozen=True)
class Side:
    """Blocks side by side, if there is room."""

    kind: ClassVar[str] = "side"
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Code:
    """Lines to be typed or read verbatim."""

    kind: ClassVar[str] = "code"
    label: str
    text: str


@dataclass(frozen=True)
class Details:
    """Blocks that open on a click."""

    kind: ClassVar[str] = "details"
    summary: str
    blocks: Sequence[Block]
    opened: bool = False


@dataclass(frozen=True)
class ImageBlock:
    """An image or a video within the page."""

    kind: ClassVar[str] = "image"
    data: str
    """A `data:` address."""
    alt: str
    caption: str = ""
    video: bool = False
    pixels: bool = False
    """Whether it is small and its pixels are meant to be visible."""


@dataclass(frozen=True)
class ImagesBlock:
    """Images side by side, if there is room."""

    kind: ClassVar[str] = "images"
    images: Sequence[ImageBlock]


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    kind: ClassVar[str] = "heading"
    text: str


Block = (
    Table
    | Figures
    | Notes
    | Text
    | Pairs
    | Side
    | Code
    | Details
    | ImageBlock
    | ImagesBlock
    | Heading
)


@dataclass(frozen=True)
class Card:
    """A headline number.

    Args:
        label: A label that can be read without a paper.
        value: The number.
        name: The metric's full name.
        formula: Its formula, shown on hover, focus and tap.
        interval: Its confidence interval.
        direction: Which way is better.
        who: The strategy it belongs to, if there are several.
    """

    label: str
    value: str
    name: str
    formula: str = ""
    interval: str = ""
    direction: str = ""
    who: str = ""


@dataclass(frozen=True)
class Section:
    """A section of a page under a heading.

    Args:
        name: A unique name on the page; its address within it.
        title: The heading.
        blocks: Its blocks.
        minor: Whether it belongs to the section before it.
    """

    name: str
    title: str
    blocks: Sequence[Block] = ()
    minor: bool = False


@dataclass(frozen=True)
class Page:
    """The content of a report."""

    title: str
    kind: str
    """Its subject: "run" or "comparison"; the name of its template."""
    facts: Mapping[str, str]
    notes: Sequence[str] = ()
    cards: Sequence[Card] = ()
    cards_note: str = ""
    sections: Sequence[Section] = field(default_factory=list)

    def drawings(self) -> Iterator[Drawing]:
        """Yield every figure of the page, in order."""
        for section in self.sections:
            yield from _drawings(section.blocks)


def _drawings(blocks: Iterable[Block]) -> Iterator[Drawing]:
    for block in blocks:
        if isinstance(block, Figures):
            yield from block.drawings
        elif isinstance(block, Side | Details):
            yield from _drawings(block.blocks)
