"""The first rows of a CSV table, and whether they are what a run had written.

A table is written anew when it needs another column; so what it held is told by its rows and
columns, not by its first bytes.
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
    """A table with these columns, as text with a heading; what a row has not is empty.

    Args:
        path: Where it is.
        columns: Which ones.
        n: How many of its rows; None for all.
    """
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, extrasaction="ignore")
    with path.open(newline="", encoding="utf-8") as file:
        writer.writeheader()
        writer.writerows(islice(csv.DictReader(file), n))
    return text.getvalue()


def first_rows(path: Path, n: int, columns: Sequence[str]) -> str:
    """The first rows of a table; nothing where it is not there or is no table."""
    try:
        return with_columns(path, columns, n) if n else ""
    except (OSError, ValueError, csv.Error):
        return ""


def problem_with(path: Path, mark: dict[str, Any]) -> str | None:
    """What is wrong with a table that should begin as its mark says; None for nothing."""
    if path.is_symlink():
        return "is a link, which the run had not made"
    if not mark["rows"]:
        return None
    if not path.is_file():
        return "cannot be read" if path.exists() else "is missing"
    text = first_rows(path, mark["rows"], mark["columns"]).encode()
    if hashlib.sha256(text).hexdigest() == mark["sha256"]:
        return None
    return f"does not begin with the {mark['rows']} rows that the run had written"
