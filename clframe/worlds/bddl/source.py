"""From text to nested parenthesised forms, without recursion and with positions."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from clframe.worlds.bddl.errors import BDDLError, shown
from clframe.worlds.bddl.limits import Limits

_TOKEN = re.compile(r";[^\n]*|[()]|[^\s();]+")
# Control characters, lone surrogates and non-characters never occur in a text meant to be read.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Position(NamedTuple):
    """A place in a text: line and column, both from 1."""

    line: int
    column: int


class Word(NamedTuple):
    """A word in lower case and where it starts."""

    text: str
    offset: int


class Group(NamedTuple):
    """A pair of parentheses, what it holds, and where it opens."""

    items: tuple[Form, ...]
    offset: int


Form = Word | Group


@dataclass(frozen=True)
class Source:
    """A text, the file it came from, and the way from offsets to lines and columns."""

    text: str
    path: str | None
    line_starts: tuple[int, ...]

    @classmethod
    def of(cls, text: str, path: str | None = None) -> Source:
        """Index the lines of a text."""
        starts = [0]
        starts.extend(match.end() for match in re.finditer("\n", text))
        return cls(text, path, tuple(starts))

    def position(self, offset: int) -> Position:
        """Line and column of an offset."""
        row = bisect_right(self.line_starts, offset) - 1
        return Position(row + 1, offset - self.line_starts[row] + 1)

    def error(self, sentence: str, offset: int) -> BDDLError:
        """An error at an offset of this text."""
        line, column = self.position(offset)
        return BDDLError(sentence, line, column, self.path)


def load(text_or_path: str | Path, limits: Limits) -> Source:
    """Take a text as it is, or read the file that a path names.

    A string with a parenthesis or a line break is text; any other string is a path.
    """
    if isinstance(text_or_path, str) and (not text_or_path or re.search(r"[()\n]", text_or_path)):
        text, path = text_or_path, None
    elif isinstance(text_or_path, str | Path):
        path = str(text_or_path)
        text = _read_file(Path(text_or_path), limits)
    else:
        kind = type(text_or_path).__name__
        raise BDDLError(f"A task description is given as a text or a path, not as {kind}.")
    if len(text) > limits.max_characters:
        raise BDDLError(
            f"The text has {len(text)} characters; the limit is {limits.max_characters}.",
            path=path,
        )
    source = Source.of(text, path)
    if bad := _FORBIDDEN.search(text):
        sentence = f"The character U+{ord(bad.group()):04X} does not belong in a task description."
        raise source.error(sentence, bad.start())
    return source


def _read_file(path: Path, limits: Limits) -> str:
    try:
        if not path.exists():
            raise BDDLError(f"There is no file {shown(str(path), 200)}.", path=str(path))
        if not path.is_file():  # a pipe or a device could block or never end
            raise BDDLError(f"{shown(str(path), 200)} is not a regular file.", path=str(path))
        with path.open("rb") as stream:
            data = stream.read(4 * limits.max_characters + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BDDLError(f"The file cannot be read: {reason}.", path=str(path)) from None
    if len(data) > 4 * limits.max_characters:
        raise BDDLError(
            f"The file is larger than the limit of {limits.max_characters} characters.",
            path=str(path),
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", errors="replace")
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        sentence = f"The byte 0x{data[error.start]:02x} is not UTF-8 text."
        raise BDDLError(sentence, line, column, str(path)) from None


def read_form(source: Source, limits: Limits) -> Group:
    """Read the one parenthesised form a text must consist of."""
    open_items: list[list[Form]] = []
    open_offsets: list[int] = []
    result: Group | None = None
    groups = words = 0
    for match in _TOKEN.finditer(source.text):
        token, offset = match.group(), match.start()
        if token[0] == ";":
            continue
        if result is not None:
            what = "parenthesis" if token in "()" else f"word {shown(token)}"
            raise source.error(f"The description has ended; this {what} is too much.", offset)
        if token == "(":
            if len(open_items) == limits.max_depth:
                sentence = f"Parentheses nest deeper than the limit of {limits.max_depth}."
                raise source.error(sentence, offset)
            groups += 1
            if groups > limits.max_groups:
                sentence = f"There are more than {limits.max_groups} pairs of parentheses."
                raise source.error(sentence, offset)
            open_items.append([])
            open_offsets.append(offset)
        elif not open_items:
            what = "A closing parenthesis" if token == ")" else f"The word {shown(token)}"
            raise source.error(f"{what} stands before any opening parenthesis.", offset)
        elif token == ")":
            group = Group(tuple(open_items.pop()), open_offsets.pop())
            if open_items:
                open_items[-1].append(group)
            else:
                result = group
        else:
            words += 1
            if words > limits.max_words:
                raise source.error(f"There are more than {limits.max_words} words.", offset)
            open_items[-1].append(Word(token.lower(), offset))
    if open_offsets:
        count = len(open_offsets)
        missing = "closing parenthesis is" if count == 1 else "closing parentheses are"
        sentence = f"This parenthesis is never closed: {count} {missing} missing."
        raise source.error(sentence, open_offsets[-1])
    if result is None:
        raise source.error("The text is empty; expected (define (problem NAME) ...).", 0)
    return result
