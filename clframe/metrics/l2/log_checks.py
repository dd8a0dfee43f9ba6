"""Convert the text of a log to checked NumPy columns, sorted by experience.

Every error names the file, the row and the column.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError, SettingError, nearest
from clframe.metrics.l2.log_rows import STANDARD_COLUMNS, LogRows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_CHUNK = 4096
_WORKER = re.compile(r"[0-9a-zA-Z_.\-]+")


@dataclass
class Log:
    """The complete experiences of one lifetime, or of one expert, in order of experience."""

    name: str
    measure: str
    block_num: Ints
    exp_num: Ints
    train: Bools
    sleep: Bools
    task: Ints  # index into task_names
    task_names: list[str]  # lower case, in order of first appearance
    params: Ints  # equal numbers mean equal task_params
    value: Floats
    scenario: dict[str, Any]

    def __len__(self) -> int:
        return len(self.value)


def choose_measure(rows: LogRows, requested: str | None) -> str:
    """Return the column with the performance.

    Args:
        rows: The log.
        requested: The user's column, or None for the only one or the first declared one.
    """
    others = [name for name in rows.columns if name not in STANDARD_COLUMNS]
    candidates = rows.measures or others
    if requested is not None:
        if requested not in rows.columns or requested in STANDARD_COLUMNS:
            raise SettingError(
                f"perf_measure is {requested!r}, but {rows.name} has no such measure: "
                f"{nearest(requested, candidates)}"
            )
        return requested
    if rows.measures:
        return rows.measures[0]
    if len(others) == 1:
        return others[0]
    if not others:
        raise DataError(f"{rows.name} has no column with a measure besides the standard columns.")
    raise SettingError(
        f"{rows.name} has several columns that may be the measure ({', '.join(others)}): "
        "name one with perf_measure."
    )


def checked_log(rows: LogRows, measure: str, agnostic: bool = False) -> Log:
    """Check all rows and keep those that are complete and have a value.

    Args:
        rows: The log as read.
        measure: Column with the performance.
        agnostic: Truncate task names at the first underscore, so that variants count as one task.
    """
    block_num = _whole_numbers(rows, "block_num")
    exp_num = _whole_numbers(rows, "exp_num")
    train = _choice(rows, "block_type", ("test", "train")) == 1
    sleep = _choice(rows, "block_subtype", ("wake", "sleep")) == 1
    complete = _choice(rows, "exp_status", ("complete", "incomplete")) == 0
    workers, worker_names = _codes(rows, "worker_id")
    for code, text in enumerate(worker_names):
        if not _WORKER.fullmatch(str(text)):
            raise DataError(
                f"{_first(rows, workers, code, 'worker_id')}: {text!r} is not a worker id "
                "(letters, digits, '_', '.', '-')."
            )
    task, task_names = _tasks(rows, agnostic)
    params = _params(rows)
    value = _numbers(rows, measure)
    _refuse_mixed(rows, workers, exp_num)

    order = np.lexsort((block_num, exp_num))
    _refuse_disorder(rows, order, block_num, exp_num, train, workers)
    kept = complete & ~np.isnan(value)
    _refuse_empty_block(rows, block_num, kept, measure)
    order = order[kept[order]]
    return Log(
        name=rows.name,
        measure=measure,
        block_num=block_num[order],
        exp_num=exp_num[order],
        train=train[order],
        sleep=sleep[order],
        task=task[order],
        task_names=task_names,
        params=params[order],
        value=value[order],
        scenario=rows.scenario,
    )


def _codes(rows: LogRows, name: str, default: str = "-") -> tuple[Ints, list[Any]]:
    """Number the distinct values of a column in order of first appearance."""
    values = rows.columns.get(name)
    if values is None:
        return np.zeros(len(rows), dtype=np.int64), [default]
    return number_values(values.tolist() if isinstance(values, np.ndarray) else list(values))


def number_values(values: list[Any]) -> tuple[Ints, list[Any]]:
    """Replace values by numbers 0, 1, ... in order of first appearance, and list the values.

    >>> codes, distinct = number_values(["b", "b", "a"])
    >>> codes.tolist(), distinct
    ([0, 0, 1], ['b', 'a'])
    """
    numbers: dict[Any, int] = {}
    codes = np.empty(len(values), dtype=np.int64)
    # Columns of a log hardly change from row to row, and counting is far cheaper than lookups.
    for start in range(0, len(values), _CHUNK):
        chunk = values[start : start + _CHUNK]
        if chunk.count(chunk[0]) == len(chunk):
            codes[start : start + _CHUNK] = numbers.setdefault(chunk[0], len(numbers))
        else:
            for value in dict.fromkeys(chunk):
                numbers.setdefault(value, len(numbers))
            codes[start : start + _CHUNK] = np.fromiter(
                map(numbers.__getitem__, chunk), np.int64, len(chunk)
            )
    return codes, list(numbers)


def _first(rows: LogRows, codes: Ints, code: int, column: str) -> str:
    return rows.place(int((codes == code).argmax()), column)


def _choice(rows: LogRows, column: str, allowed: tuple[str, str]) -> Ints:
    """Convert a column of two values to 0 and 1; a missing column is all 0."""
    codes, texts = _codes(rows, column, allowed[0])
    for code, text in enumerate(texts):
        if text not in allowed:
            raise DataError(
                f"{_first(rows, codes, code, column)}: {text!r} must be '{allowed[0]}' or "
                f"'{allowed[1]}'."
            )
    meaning = np.array([allowed.index(text) for text in texts], dtype=np.int64)
    return meaning[codes]


def _tasks(rows: LogRows, agnostic: bool) -> tuple[Ints, list[str]]:
    codes, texts = _codes(rows, "task_name")
    names: dict[str, int] = {}
    translate = np.empty(len(texts), dtype=np.int64)
    for code, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{_first(rows, codes, code, 'task_name')}: the task name is empty.")
        name = text.lower().split("_", 1)[0] if agnostic else text.lower()
        translate[code] = names.setdefault(name, len(names))
    return translate[codes], list(names)


def _params(rows: LogRows) -> Ints:
    """Number the parameters so that equal JSON objects get equal numbers."""
    values = rows.columns.get("task_params")
    if values is None:
        return np.zeros(len(rows), dtype=np.int64)
    if rows.in_memory:  # a table may hold dictionaries, which cannot be hashed
        values = [v if isinstance(v, str) else json.dumps(v, sort_keys=True) for v in values]
    codes, texts = number_values(list(values))
    meanings: dict[str, int] = {}
    translate = np.empty(len(texts), dtype=np.int64)
    for code, text in enumerate(texts):
        try:
            meaning = json.dumps(json.loads(text), sort_keys=True)
        except (ValueError, RecursionError):
            raise DataError(
                f"{_first(rows, codes, code, 'task_params')}: {text!r} is not a JSON object."
            ) from None
        translate[code] = meanings.setdefault(meaning, len(meanings))
    return translate[codes]


def _whole_numbers(rows: LogRows, column: str) -> Ints:
    values = rows.columns[column]
    numbers = _converted(values, int, np.int64)
    if numbers is not None and rows.in_memory and not all(map(_is_whole, values)):
        numbers = None
    if numbers is None or (numbers < 0).any():
        row = next(i for i, cell in enumerate(values) if not _is_whole(cell) or int(cell) < 0)
        raise DataError(
            f"{rows.place(row, column)}: {values[row]!r} is not a whole number of at least 0."
        )
    return numbers


def _numbers(rows: LogRows, column: str) -> Floats:
    """Read the measure: empty cells are NaN ("no value"), all others must be finite numbers."""
    values = rows.columns[column]
    cells: Sequence[Any] = values
    if rows.in_memory:
        cells = [math.nan if _no_value(cell) else cell for cell in values]
    elif "" in values:
        cells = [cell or "nan" for cell in values]
    numbers = _converted(cells, float, np.float64)
    if numbers is None:
        row = next(i for i, cell in enumerate(cells) if not _is_number(cell))
        raise DataError(f"{rows.place(row, column)}: {values[row]!r} is not a number.")
    if np.isinf(numbers).any():
        row = int(np.isinf(numbers).argmax())
        raise DataError(f"{rows.place(row, column)}: {values[row]!r} is infinite.")
    if not rows.in_memory:  # NaN means "no value" in a table, but not in a file
        for row in np.flatnonzero(np.isnan(numbers)).tolist():
            if values[row] != "":
                raise DataError(
                    f"{rows.place(row, column)}: {values[row]!r} is not a number "
                    "(leave the cell empty for 'no value')."
                )
    return numbers


def _converted(
    values: Sequence[Any], kind: Callable[[Any], Any], dtype: type
) -> NDArray[Any] | None:
    try:
        return np.fromiter(map(kind, values), dtype, len(values))
    except (TypeError, ValueError, OverflowError):
        return None


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def _is_whole(cell: Any) -> bool:
    try:
        return bool(int(cell) == float(cell))
    except (TypeError, ValueError, OverflowError):
        return False


def _no_value(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _refuse_mixed(rows: LogRows, workers: Ints, exp_num: Ints) -> None:
    """Reject a log in which a worker's experience numbers restart: two lifetimes in one."""
    order = np.argsort(workers, kind="stable")
    numbers, same = exp_num[order], np.diff(workers[order]) == 0
    falls = np.flatnonzero((np.diff(numbers) < 0) & same)
    if falls.size:
        row = int(order[falls[0] + 1])
        raise DataError(
            f"{rows.place(row, 'exp_num')}: exp_num falls from {numbers[falls[0]]} to "
            f"{exp_num[row]}; it must rise over the whole lifetime (are two lifetimes mixed?)."
        )


def _refuse_disorder(
    rows: LogRows,
    order: NDArray[np.intp],
    block_num: Ints,
    exp_num: Ints,
    train: Bools,
    workers: Ints,
) -> None:
    blocks, numbers = block_num[order], exp_num[order]
    same = numbers[1:] == numbers[:-1]
    torn = np.flatnonzero(same & ((np.diff(blocks) != 0) | (np.diff(workers[order]) != 0)))
    if torn.size:
        row, other = int(order[torn[0] + 1]), int(order[torn[0]])
        raise DataError(
            f"{rows.place(row, 'exp_num')}: experience {exp_num[row]} is already in "
            f"{rows.place(other)}, in another block or of another worker (two lifetimes mixed?)."
        )
    falls = np.flatnonzero(np.diff(blocks) < 0)
    if falls.size:
        row = int(order[falls[0] + 1])
        raise DataError(
            f"{rows.place(row, 'block_num')}: block {block_num[row]} comes after block "
            f"{blocks[falls[0]]} (in order of exp_num); blocks must not go back."
        )
    kinds = train[order]
    torn = np.flatnonzero((np.diff(blocks) == 0) & (kinds[1:] != kinds[:-1]))
    if torn.size:
        row = int(order[torn[0] + 1])
        raise DataError(
            f"{rows.place(row, 'block_type')}: block {block_num[row]} contains both training and "
            "test experiences; a block has one type."
        )


def _refuse_empty_block(rows: LogRows, block_num: Ints, kept: Bools, measure: str) -> None:
    lost = np.setdiff1d(block_num, block_num[kept])
    if lost.size:
        row = int((block_num == lost[0]).argmax())
        raise DataError(
            f"{rows.place(row, measure)}: block {lost[0]} has no complete experience with a value, "
            "so it is empty."
        )
