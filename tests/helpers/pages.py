"""The code and the commands that stand in README and docs/."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
RESULTS = sorted((ROOT / "docs" / "results").glob("*.md"))
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.S | re.M)
_TAKEN_BY_SHELLS = re.compile(r"[\[\](){}*?<>;&|$~#!^]")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is, its language and what is in it."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    return [
        Block(name_of(path), text[: found.start()].count("\n") + 1, found[1], found[2])
        for found in _FENCE.finditer(text)
    ]


def commands(path: Path) -> Iterator[str]:
    """The lines that start with ``clframe`` in blocks, and those within a sentence or a table."""
    text = path.read_text(encoding="utf-8")
    for block in blocks(path):
        if block.language in ("", "bash", "sh", "console"):
            for line in block.text.replace("\\\n", " ").splitlines():
                if line.startswith(("clframe ", "python ")) and "..." not in line:
                    yield " ".join(line.partition("  #")[0].split())
    for found in re.findall(r"(?<!`)`((?:clframe|python) [^`]+)`", _FENCE.sub("", text)):
        command = " ".join(found.split())
        bare = len(command.split()) == 2  # the name of a command, not a line to type
        if "..." not in command and not bare and not command.startswith("clframe: "):
            yield command.replace("\\|", "|")


def taken_by_a_shell(command: str) -> str | None:
    """A character outside of quotes that bash or zsh would take for itself."""
    found = _TAKEN_BY_SHELLS.search(_QUOTED.sub("", command))
    return None if found is None else found[0]
