"""What a person sees in the terminal: notices and the colored matrix.

Colors only on a terminal and never with ``NO_COLOR``; nothing here touches torch.
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
"""Names of tasks that are longer are put below the matrix and numbered in it."""
# Muted red to green in the 256-color palette, from 0 to 1.
_SHADES = (131, 137, 143, 107, 71)


_CONTROL = (
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)
"""What moves the cursor, changes the terminal or reverses a text, and what has no encoding."""
_CONTROLS = re.compile(_CONTROL)
_CONTROLS_NOT_OURS = re.compile(rf"(\x1b\[(?:[0-2]|3[1-6]|38;5;\d{{1,3}})?m)|{_CONTROL}")


def printable(text: str) -> str:
    r"""Return a text in one line whose control characters are written out.

    Names come from files, which may be of somebody else: a name must not clear the screen or look
    like a line of clframe.

    >>> printable("a\nb\x1b[2J")
    'a\\nb\\x1b[2J'
    """
    return _CONTROLS.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    letter = match[0]
    if "\udc80" <= letter <= "\udcff":  # a byte of a file name that is no UTF-8
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode()


def _safe(text: str) -> str:
    """One line, in which the colors of clframe stay."""
    return _CONTROLS_NOT_OURS.sub(lambda match: match[1] or _written_out(match), text)


def columns() -> int:
    """How long a line of text may be: as wide as the terminal, and 80 where there is none."""
    return max(20, min(100, shutil.get_terminal_size((80, 24)).columns))


def wrap(text: str, indent: int = 0, first: str | None = None) -> list[str]:
    """A text in lines that fit, broken between words; what has no spaces stays whole.

    Args:
        text: The text.
        indent: Spaces before every line.
        first: What the first line begins with instead.
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
    """One sentence to the user, on standard error: in one line, or as the terminal has room."""
    text = f"clframe: {printable(sentence)}"
    print_err(*(wrap(text, 2, "") if sys.stderr.isatty() else [text]))


def print_err(*lines: str) -> None:
    """Write lines to standard error; if that is closed the run goes on without."""
    try:
        print("\n".join(map(_safe, lines)), file=sys.stderr, flush=True)  # noqa: T201
    except OSError:
        drop(sys.stderr.fileno())


def drop_if_lost() -> None:
    """Send output nowhere from now on if its terminal has been closed."""
    for descriptor in (1, 2):
        try:
            os.write(descriptor, b"")
        except OSError:
            drop(descriptor)


def drop(descriptor: int) -> None:
    """Send what is written to a file from now on nowhere, also what is still on the way to it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def print_out(text: str = "") -> None:
    """Print one line; see :func:`say_lines` for several."""
    print(_safe(text), flush=True)  # noqa: T201


def print_lines(text: str | Sequence[str]) -> None:
    """Print lines, given as a text or one by one."""
    lines = text.split("\n") if isinstance(text, str) else text
    print("\n".join(map(_safe, lines)), flush=True)  # noqa: T201


def truncate(text: str, width: int) -> str:
    """A text that is not longer than so many letters.

    >>> truncate("pick up the alphabet soup", 12)
    'pick up the…'
    """
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


def colored(stream: TextIO) -> bool:
    """Whether this stream shows colors."""
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
    """The matrix as text; with colors, each cell is shaded by its value.

    Columns that do not fit the width are folded into further blocks. Where names are long (the
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
