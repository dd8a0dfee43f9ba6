"""Small logs for the tests of the L2 metrics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

HEADER = (
    "block_num",
    "exp_num",
    "worker_id",
    "block_type",
    "block_subtype",
    "task_name",
    "task_params",
    "exp_status",
    "reward",
)

# (kind, task, values) or (kind, task, values, {"params": ..., "subtype": ..., "block": ...})
Piece = tuple[Any, ...]


def table(pieces: Sequence[Piece]) -> dict[str, list[Any]]:
    """Make a log in memory: each piece is a regime in a block of its own unless it names one."""
    columns: dict[str, list[Any]] = {name: [] for name in HEADER}
    number = 0
    block = -1
    for kind, task, values, *rest in pieces:
        options = rest[0] if rest else {}
        block = options.get("block", block + 1)
        for value in values:
            cells = (
                block,
                number,
                "w0",
                kind,
                options.get("subtype", "wake"),
                task,
                options.get("params", "{}"),
                "complete",
                value,
            )
            for name, cell in zip(HEADER, cells, strict=True):
                columns[name].append(cell)
            number += 1
    return columns


def write_tsv(path: Path, columns: dict[str, list[Any]]) -> Path:
    """Write a table as a TSV file."""
    rows = zip(*columns.values(), strict=True)
    lines = ["\t".join(columns), *("\t".join(str(cell) for cell in row) for row in rows)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path
