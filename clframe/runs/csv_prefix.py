"""The first rows of a CSV table, and a check that they are unchanged.

A table is written again when it needs another column, so its rows and columns are compared instead
of its first bytes.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any


def with_columns(path: Path, columns: Sequence[str], n: int | None = None) -> str:
    """Return a table with these columns as text with a heading; missing cells are empty.

    Args:
        path: Path of the table.
        columns: Names of the columns.
        n: Number of rows to keep; None for all.
    """
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, extrasaction="ignore")
    with path.open(newline="", encoding="utf-8") as file:
        writer.writeheader()
        writer.writerows(islice(csv.DictReader(file), n))
    return text.getvalue()


def first_rows(path: Path, n: int, columns: Sequence[str]) -> str:
    """Return the first rows of a table; an empty text if it is missing or not a table."""
    try:
        return with_columns(path, columns, n) if n else ""
    except (OSError, ValueError, csv.Error):
        return ""


def problem_with(path: Path, mark: dict[str, Any]) -> str | None:
    """Return the problem with a table that must begin as its mark says, or None."""
    if path.is_symlink():
        return "is a link that the run has not made"
    if not mark["rows"]:
        return None
    if not path.is_file():
        return "cannot be read" if path.exists() else "is missing"
    text = first_rows(path, mark["rows"], mark["columns"]).encode()
    if hashlib.sha256(text).hexdigest() == mark["sha256"]:
        return None
    return f"does not begin with the {mark['rows']} rows that the run had written"
