"""The outcomes of a run's episodes, as results.json keeps them under ``measured.rollouts``.

Rows and columns are those of the matrix. A cell's successes are a string of zeros and ones in the
order of the episodes' numbers; other measures (``progress``, ``q``) are lists of numbers. Each task
has the identity of its episodes: if it is equal in two runs, episodes of the same number began in
the same state and can be compared one by one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from clframe.core.matrix import AccuracyMatrix

NAME = "rollouts"
SUCCESS = "success"
_DIGITS = 6


class Measured(Protocol):
    """The parts of a :class:`clframe.Result` that are needed here."""

    matrix: AccuracyMatrix
    measured: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class CellOutcomes:
    """The episodes of one cell of the matrix.

    Args:
        identity: The identity of the episodes.
        success: Whether each episode reached its goal, by number.
        measures: Other measures of each episode, by name; NaN if missing.
        stopped: Why the cell used fewer episodes than planned; empty if it used all.
    """

    identity: str
    success: tuple[bool, ...]
    measures: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    stopped: Mapping[str, Any] = field(default_factory=dict)


def outcomes_json(
    columns: Sequence[str], rows: Sequence[Mapping[str, Mapping[str, Any]]]
) -> dict[str, Any] | None:
    """Return the form of results.json, or None if no episode was run.

    Args:
        columns: The matrix's columns.
        rows: By row and task: ``identity``, ``values`` by name and episode, optionally ``stopped``.
    """
    cells = [cell for row in rows for cell in row.values()]
    if not cells:
        return None
    names = dict.fromkeys(name for cell in cells for name in cell["values"])
    outcomes: dict[str, Any] = {
        "episodes": {task: cell["identity"] for row in rows for task, cell in row.items()},
        SUCCESS: [
            ["".join(str(int(x)) for x in row[c]["values"][SUCCESS]) if c in row else None
             for c in columns]
            for row in rows
        ],
    }  # fmt: skip
    for name in names:
        if name != SUCCESS:
            outcomes[name] = [
                [[_short(x) for x in row[c]["values"][name]] if c in row else None for c in columns]
                for row in rows
            ]
    if any("stopped" in cell for cell in cells):
        outcomes["stopped"] = [[row.get(c, {}).get("stopped") for c in columns] for row in rows]
    return outcomes


def _short(value: float) -> float | int | None:
    """Round a number so that it needs few characters."""
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) else round(value, _DIGITS)


def outcomes_of(result: Measured) -> dict[tuple[int, int], CellOutcomes]:
    """Return a run's episodes by row and column of its matrix; empty if none were kept.

    Entries of another form, in files from elsewhere, are ignored.
    """
    kept = result.measured.get(NAME, {})
    identities, success = kept.get("episodes"), kept.get(SUCCESS)
    if not isinstance(identities, dict) or not isinstance(success, list):
        return {}
    outcomes: dict[tuple[int, int], CellOutcomes] = {}
    others = [name for name in kept if name not in ("episodes", SUCCESS, "stopped")]
    for i, row in enumerate(success[: len(result.matrix.rows)]):
        for j, text in enumerate(row if isinstance(row, list) else ()):
            if j >= len(result.matrix.columns) or not isinstance(text, str):
                continue
            if not text or set(text) - {"0", "1"}:
                continue
            stopped = _at(kept.get("stopped"), i, j)
            measures = {}
            for name in others:
                values = _at(kept[name], i, j)
                if isinstance(values, list) and len(values) == len(text):
                    measures[name] = tuple(
                        float(x) if isinstance(x, int | float) else math.nan for x in values
                    )
            outcomes[i, j] = CellOutcomes(
                str(identities.get(result.matrix.columns[j], "")),
                tuple(letter == "1" for letter in text),
                measures,
                stopped if isinstance(stopped, dict) else {},
            )
    return outcomes


def _at(table: Any, row: int, column: int) -> Any:
    """Return a cell of nested lists, or None if it does not exist."""
    line = table[row] if isinstance(table, list) and row < len(table) else None
    return line[column] if isinstance(line, list) and column < len(line) else None
