"""What was measured of a method: the rows about it of the tables in docs/results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from docs_site import text

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "results"
_NAMES = ("method", "strategy")
_NOT_RESULTS = ("README", "faults", "strengths")
"""An index, tables of killed runs, and strengths that were tried before measuring."""


@dataclass(frozen=True)
class Rows:
    """The rows of one table that are about one method."""

    page: str
    title: str
    header: list[str]
    rows: list[list[str]]

    def as_markdown(self) -> str:
        """The rows as a table with its source."""
        shown = text.table(self.header, self.rows)
        return f"[{self.title}](../results/{self.page}.md):\n\n{shown}\n"


def _tables(content: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    for block in re.findall(r"(?:^\|.*\n)+", content + "\n", re.M):
        rows = [[c.strip() for c in line.strip("|").split("|")] for line in block.splitlines()]
        if len(rows) < 3 or not set("".join(rows[1])) <= set("-: "):
            continue
        header, body = rows[0], rows[2:]
        if not any(name in header for name in _NAMES) and any(n in body[0] for n in _NAMES):
            # A heading of two lines: the upper one spans several columns.
            span, upper = "", []
            for word in header:
                span = word or span
                upper.append(span)
            header = [
                f"{low} ({up})" if up and low not in _NAMES else low
                for up, low in zip(upper, body[0], strict=True)
            ]
            body = body[1:]
        yield header, body


def by_strategy(strategies: Mapping[str, str]) -> dict[str, list[Rows]]:
    """The measured rows of each strategy.

    Args:
        strategies: Names by how they may be written in a table, in small letters.
    """
    found: dict[str, list[Rows]] = {}
    for path in sorted(FOLDER.glob("*.md")):
        if path.stem in _NOT_RESULTS:
            continue
        content = path.read_text(encoding="utf-8")
        title = content.partition("\n")[0].lstrip("# ")
        for header, body in _tables(content):
            column = next((header.index(name) for name in _NAMES if name in header), None)
            if column is None:
                continue
            rows: dict[str, list[list[str]]] = {}
            for row in body:
                name = _strategy_of(path.stem, row[column], strategies)
                if name is not None:
                    rows.setdefault(name, []).append(row)
            for name, mine in rows.items():
                found.setdefault(name, []).append(Rows(path.stem, title, header, mine))
    return found


def _strategy_of(page: str, method: str, strategies: Mapping[str, str]) -> str | None:
    """The strategy that a row's method is: that of the experiment of this name, if there is one."""
    file = ROOT / "configs" / "experiment" / page / f"{method}.yaml"
    if file.is_file():
        chosen = re.search(r"override /strategy: (\w+)", file.read_text(encoding="utf-8"))
        if chosen:
            return chosen[1]
    return strategies.get(method.lower())
