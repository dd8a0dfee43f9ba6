"""Tables that benchmarks put into pages that people write."""

from __future__ import annotations

from pathlib import Path


def put_table(page: Path, name: str, text: str) -> None:
    """Replace what a page has between two comments that name a table."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, found, rest = page.read_text().partition(start)
    if not found or end not in rest:
        raise SystemExit(f"{page} has no place for the table of {name}")
    page.write_text(f"{before}{start}\n{text}\n\n{end}{rest.partition(end)[2]}")
