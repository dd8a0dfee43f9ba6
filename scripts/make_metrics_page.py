"""Write the tables of docs/metrics.md from the metadata of the metrics.

python scripts/make_metrics_page.py
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from clframe.metrics.catalog import CATALOG

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"
_BLOCK = re.compile(r"(<!-- table: ([\w ]+) -->\n).*?(<!-- end of table -->)", re.S)


def table(families: list[str]) -> str:
    """The metrics of some families, and where they are defined."""
    rows = {name: info for name, info in CATALOG.items() if name.split(".")[0] in families}
    lines = ["| name | formula | better | range |", "|---|---|---|---|"]
    lines += [
        f"| `{name}` | {info.formula} | {info.direction} | {info.range} |"
        for name, info in rows.items()
    ]
    papers: dict[str, dict[str, None]] = {}
    for name, info in rows.items():
        papers.setdefault(name.split(".")[0], {})[info.paper] = None
    if len(families) == 1:
        sources = f"Source: {'; '.join(papers[families[0]])}."
    else:
        sources = "Sources: " + "; ".join(f"`{f}` {', '.join(p)}" for f, p in papers.items()) + "."
    return "\n".join([*lines, "", *textwrap.wrap(sources, 108, break_on_hyphens=False)]) + "\n"


def page(text: str) -> str:
    """The page with its tables as the facts have them."""
    return _BLOCK.sub(lambda block: block[1] + table(block[2].split()) + block[3], text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
