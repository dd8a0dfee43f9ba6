"""From docstrings, which are in Google's style, to Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

_ROLE = re.compile(r":(?:class|meth|mod|func|attr|data|exc):`~?([^`]+)`")
_SECTION = re.compile(r"(Args|Returns|Raises|Yields|Examples?|Attributes|Note):")
_ENTRY = re.compile(r"(\*{0,2}\w[\w., ]*)(?: \([^)]*\))?:\s*(.*)")


def markdown(docstring: str, without: Sequence[str] = ()) -> str:
    """A docstring as Markdown: literal blocks and examples fenced, sections as lists.

    Args:
        docstring: The docstring in the source.
        without: Sections to leave out, such as Args where a table says the same.
    """
    lines = inspect.cleandoc(docstring).splitlines()
    out: list[str] = []
    place = 0
    section = ""
    while place < len(lines):
        line = lines[place]
        header = _SECTION.fullmatch(line)
        if header:
            section = header[1]
            if section not in without:
                out += ["", f"**{section}**", ""]
            place += 1
            continue
        if section and line and not line.startswith(" "):
            section = ""
        if section in without:
            place += 1
            continue
        if line.strip().startswith(">>>"):
            block, place = _until_blank(lines, place)
            out += ["", "```pycon", *block, "```", ""]
            continue
        if section and section not in ("Example", "Examples", "Note"):
            block, place = _until_dedent(lines, place)
            out += _entries(block)
            continue
        if line.rstrip().endswith("::"):
            out.append(_inline(line.rstrip()[:-1]))
            block, place = _indented(lines, place + 1, _depth(line))
            out += ["", "```text", *block, "```", ""]
            continue
        out.append(_inline(line if not section else line.strip()))
        place += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _dedent(block: list[str]) -> list[str]:
    while block and not block[-1].strip():
        block.pop()
    while block and not block[0].strip():
        block.pop(0)
    least = min((_depth(line) for line in block if line.strip()), default=0)
    return [line[least:] for line in block]


def _until_blank(lines: list[str], place: int) -> tuple[list[str], int]:
    end = place
    while end < len(lines) and lines[end].strip():
        end += 1
    return _dedent(lines[place:end]), end


def _until_dedent(lines: list[str], place: int) -> tuple[list[str], int]:
    end = place
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" ")):
        end += 1
    return _dedent(lines[place : max(end, place + 1)]), max(end, place + 1)


def _indented(lines: list[str], place: int, depth: int) -> tuple[list[str], int]:
    end = place
    while end < len(lines) and (not lines[end].strip() or _depth(lines[end]) > depth):
        end += 1
    return _dedent(lines[place:end]), end


def _entries(block: Iterable[str]) -> list[str]:
    """The entries of a section as a list; a continued line goes on with its entry."""
    out: list[str] = []
    for line in block:
        entry = _ENTRY.fullmatch(line) if not line.startswith(" ") else None
        if entry:
            out.append(f"- `{entry[1]}`: {_inline(entry[2])}".rstrip())
        elif line.strip() and out:
            out[-1] += " " + _inline(line.strip())
        elif line.strip():
            out.append(_inline(line.strip()))
    return [*out, ""]


def _inline(text: str) -> str:
    text = _ROLE.sub(r"`\1`", text).replace("``", "`")
    # Outside of code, characters of HTML or emphasis are literal.
    parts = text.split("`")
    parts[::2] = [_plain(part) for part in parts[::2]]
    return "`".join(parts)


def _plain(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_").replace("[", "\\[")


def cell(text: str) -> str:
    """A text inside a table."""
    return _inline(" ".join(text.split())).replace("|", "\\|")


def code(text: str) -> str:
    """Code inside a table."""
    return "`" + " ".join(str(text).split()).replace("|", "\\|") + "`"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
