"""What a page consists of, as plain data: templates say how it looks.

A page has sections, a section has blocks. Each block has a `kind`, which is the name of the macro
in `blocks.html` that writes it. Texts are plain texts; the templates escape them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from clframe.report.figure_specs import Drawing


@dataclass(frozen=True)
class Cell:
    """A place of a table.

    Args:
        text: What is in it.
        mark: "best" or "same" (not told apart from the best); empty for neither.
        note: What more is to be known: an interval, a test.
    """

    text: str
    mark: str = ""
    note: str = ""


@dataclass(frozen=True)
class Head:
    """The heading of a column or a row.

    Args:
        text: What it says.
        note: What it means, smaller.
        code: Whether it is a name that can be typed.
    """

    text: str
    note: str = ""
    code: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under headings; the first heading is that of the rows' own."""

    kind: ClassVar[str] = "table"
    label: str
    heads: Sequence[Head]
    rows: Sequence[tuple[Head, Sequence[Cell]]]
    caption: str = ""


@dataclass(frozen=True)
class Figures:
    """Figures that stand side by side where there is room."""

    kind: ClassVar[str] = "figures"
    drawings: Sequence[Drawing]


@dataclass(frozen=True)
class Notes:
    """Sentences to be seen before the numbers."""

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
    """Blocks side by side where there is room."""

    kind: ClassVar[str] = "side"
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Code:
    """Lines to be typed or read as they are."""

    kind: ClassVar[str] = "code"
    label: str
    text: str


@dataclass(frozen=True)
class Details:
    """What opens on a click."""

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
    """Whether it is small and its pixels are to be seen."""


@dataclass(frozen=True)
class ImagesBlock:
    """ImagesBlock that stand side by side where there is room."""

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
    """A number that a reader looks for first.

    Args:
        label: In words that need no paper.
        value: The number.
        name: The metric's full name.
        formula: How it is computed, shown on hover, focus and tap.
        interval: How sure it is.
        direction: Which way is better.
        who: Whose number it is, where there are several.
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
    """A part of a page under a heading.

    Args:
        name: Unique on the page; its address within it.
        title: The heading.
        blocks: What is in it.
        minor: Whether it belongs to the section before it.
    """

    name: str
    title: str
    blocks: Sequence[Block] = ()
    minor: bool = False


@dataclass(frozen=True)
class Page:
    """All that a report shows."""

    title: str
    kind: str
    """What it is about: "run" or "comparison"; the name of its template."""
    facts: Mapping[str, str]
    notes: Sequence[str] = ()
    cards: Sequence[Card] = ()
    cards_note: str = ""
    sections: Sequence[Section] = field(default_factory=list)

    def drawings(self) -> Iterator[Drawing]:
        """Every figure of the page, in its order."""
        for section in self.sections:
            yield from _drawings(section.blocks)


def _drawings(blocks: Iterable[Block]) -> Iterator[Drawing]:
    for block in blocks:
        if isinstance(block, Figures):
            yield from block.drawings
        elif isinstance(block, Side | Details):
            yield from _drawings(block.blocks)
