"""The result pages of the MNIST family and of OpenLORIS, made again from the stored values.

    python benchmarks/results_pages.py

Nothing is run. The values of each seed are in ``docs/results/<table>.json``, published values and
notes in the benchmark of the same name; a table without values yet has no page. What is printed is
the number of cells with published values.
"""

from __future__ import annotations

import json
from pathlib import Path

import beside
import der_mnist
import gem_mnist
import grid
import openloris
import permuted_mnist
import three_scenarios

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"
TABLES = (three_scenarios.TABLE, permuted_mnist.TABLE, der_mnist.TABLE, gem_mnist.TABLE)


def stored(name: str, folder: Path = RESULTS) -> grid.Found:
    """The values of a table by cell and seed; none if there is no file."""
    path = folder / f"{name}.json"
    found: grid.Found = json.loads(path.read_text()) if path.is_file() else {}
    return found


def pages(folder: Path = RESULTS) -> dict[str, str]:
    """All pages that have values, by the name of the file."""
    made = {}
    for table in TABLES:
        if found := stored(table.name, folder):
            made[f"{table.name}.md"] = beside.page(table, found)
    if found := stored("openloris_small", folder):
        made["openloris.md"] = openloris.page(found)
    return made


def count(folder: Path = RESULTS) -> tuple[int, int]:
    """Count the cells with published values, and those outside of their band."""
    found = {table.name: stored(table.name, folder) for table in TABLES}
    compared = sum(len(beside.beside_published(t, found[t.name])) for t in TABLES)
    return compared, sum(len(beside.outside(t, found[t.name])) for t in TABLES)


def main() -> None:
    """Write all pages."""
    for name, text in pages().items():
        (RESULTS / name).write_text(text)
        print(f"docs/results/{name}")
    compared, flagged = count()
    print(f"{compared} cells with published values, {flagged} outside of their band")


if __name__ == "__main__":
    main()
