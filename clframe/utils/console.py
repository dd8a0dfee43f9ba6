"""Terminal output: warnings and the colored matrix.

Colors appear only on a terminal and never with ``NO_COLOR``. This module never imports torch.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

_LONG = 24
"""Longer names of tasks are listed below the matrix and numbered in it."""
# Muted red to green in the 256-color palette, from 0 to 1.
_SHADES = (131, 137, 143, 107, 71)


_CONTROL = (
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that move the cursor, change the terminal, reverse a text, or have no encoding."""
_CONTROLS = re.compile(_CONTROL)
_CONTROLS_NOT_OURS = re.compile(rf"(\x1b\[(?:[0-2]|3[1-6]|38;5;\d{{1,3}})?m)|{_CONTROL}")


def printable(text: str) -> str:
    r"""Return a text on one line, with its control characters escaped.

    Names come from files, which somebody else may have written: a name must not clear the screen or
    look like a message of clframe.

    >>> printable("a\nb\x1b[2J")
    'a\\nb\\x1b[2J'
    """
    return _CONTROLS.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    letter = match[0]
    if "\udc80" <= letter <= "\udcff":  # A byte of a file name that is not UTF-8.
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode()


def _safe(text: str) -> str:
    """Return a text on one line, with clframe's colors kept."""
    return _CONTROLS_NOT_OURS.sub(lambda match: match[1] or _written_out(match), text)


def columns() -> int:
    """Return the maximum line length: the terminal's width, or 80 without a terminal."""
    return max(20, min(100, shutil.get_terminal_size((80, 24)).columns))


def wrap(text: str, indent: int = 0, first: str | None = None) -> list[str]:
    """Break a text between words into lines that fit; longer words stay whole.

    Args:
        text: The text.
        indent: Spaces before every line.
        first: Start of the first line, instead of spaces.
    """
    return textwrap.wrap(
        text,
        columns(),
        initial_indent=" " * indent if first is None else first,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def warn_user(sentence: str) -> None:
    """Print a one-sentence warning to standard error, wrapped on a narrow terminal."""
    text = f"clframe: {printable(sentence)}"
    print_err(*(wrap(text, 2, "") if sys.stderr.isatty() else [text]))


def print_err(*lines: str) -> None:
    """Write lines to standard error; a closed stderr does not end the run."""
    try:
        print("\n".join(map(_safe, lines)), file=sys.stderr, flush=True)  # noqa: T201
    except OSError:
        drop(sys.stderr.fileno())


def drop_if_lost() -> None:
    """Discard further output if its terminal has been closed."""
    for descriptor in (1, 2):
        try:
            os.write(descriptor, b"")
        except OSError:
            drop(descriptor)


def drop(descriptor: int) -> None:
    """Discard further output to a file descriptor, including buffered output."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def print_out(text: str = "") -> None:
    """Print one line; see :func:`print_lines` for several."""
    print(_safe(text), flush=True)  # noqa: T201


def print_lines(text: str | Sequence[str]) -> None:
    """Print lines, from one text or a sequence."""
    lines = text.split("\n") if isinstance(text, str) else text
    print("\n".join(map(_safe, lines)), flush=True)  # noqa: T201


def truncate(text: str, width: int) -> str:
    """Cut a text to this number of characters.

    >>> truncate("pick up the alphabet soup", 12)
    'pick up the…'
    """
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


def colored(stream: TextIO) -> bool:
    """Return whether this stream shows colors."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def matrix_table(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    color: bool = False,
    width: int | None = None,
) -> str:
    """Return the matrix as text; with colors, each cell is shaded by its value.

    Columns that do not fit the width are folded into further blocks. If names are long (the
    instructions of robots), columns and rows are numbered and the names follow.

    >>> print(matrix_table(["before", "exp0"], ["task0"], [[0.5], [None]]))
            task0
    before  0.500
    exp0        -
    """
    rows, columns = [printable(name) for name in rows], [printable(name) for name in columns]
    if max(map(len, columns), default=0) > _LONG:
        short = {name: f"#{number}" for number, name in enumerate(columns, 1)}
        named = "\n".join(f"{number:<4}{name}" for name, number in short.items())
        rows = [short.get(name, name) for name in rows]
        return f"{matrix_table(rows, list(short.values()), values, color, width)}\n\n{named}"
    first = max(len(name) for name in ["", *rows])
    cell = max(5, *(len(name) for name in columns))
    fit = len(columns) if width is None else max(1, (width - first) // (cell + 2))
    blocks = []
    for start in range(0, len(columns), fit):
        chosen = range(start, min(start + fit, len(columns)))
        lines = [" " * first + "".join(f"  {columns[j]:>{cell}}" for j in chosen)]
        for name, row in zip(rows, values, strict=True):
            cells = "".join("  " + _cell(row[j], cell, color) for j in chosen)
            lines.append(f"{name:<{first}}{cells}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _cell(value: float | None, width: int, color: bool) -> str:
    text = f"{'-' if value is None else format(value, '.3f'):>{width}}"
    if not color or value is None:
        return text
    shade = _SHADES[min(len(_SHADES) - 1, max(0, int(value * len(_SHADES))))]
    return f"\x1b[38;5;{shade}m{text}\x1b[0m"
