"""docs/llms.txt has the format of llmstxt.org, and its links lead to files."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
LINES = (DOCS / "llms.txt").read_text(encoding="utf-8").splitlines()
_ENTRY = re.compile(r"- \[[^\]]+\]\(([^)]+)\): \S.*")


def test_it_starts_with_a_title_and_a_summary() -> None:
    assert LINES[0] == "# clframe"
    assert LINES[2].startswith("> ")
    assert not LINES[1]
    assert not LINES[3]


def test_sections_hold_only_links_to_files_that_exist() -> None:
    first = next(number for number, line in enumerate(LINES) if line.startswith("## "))
    links = []
    for line in LINES[first:]:
        if line and not line.startswith("## "):
            entry = _ENTRY.fullmatch(line)
            assert entry, line
            links.append(entry[1])
    assert not [link for link in links if not (DOCS / link).is_file()]
    assert len(links) == len(set(links)) >= 20
