"""Read the rows of an l2logger log (format 1.0 and 1.1) as columns, with their location.

A log is a folder written by l2logger (``logger_info.json`` and one ``data-log.tsv`` per worker and
block), a single TSV file, or a table in memory. This file only finds and splits the rows;
`log_checks` checks their content.
"""

from __future__ import annotations

import csv
import io
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clframe.errors import DataError
from clframe.utils.checksums import SUMS, check_file, read_sums
from clframe.utils.regular import read_json, read_text

DATA_FILE = "data-log.tsv"
LOGGER_FILE = "logger_info.json"
SCENARIO_FILE = "scenario_info.json"

# Columns that are not a measure, whatever other columns a log has.
STANDARD_COLUMNS = (
    "block_num",
    "exp_num",
    "worker_id",
    "block_type",
    "block_subtype",
    "task_name",
    "task_params",
    "exp_status",
    "timestamp",
)
REQUIRED_COLUMNS = (
    "block_num",
    "exp_num",
    "worker_id",
    "block_type",
    "task_name",
    "task_params",
    "exp_status",
)
_LONGEST = 4 << 30
"""Maximum bytes of a block that is read; large logs have blocks of a gigabyte."""


@dataclass
class LogRows:
    """All rows of a log, column by column, with the origin of each."""

    name: str  # what messages call the log: its path, or "the table"
    columns: Mapping[str, Sequence[Any]]
    measures: list[str]  # columns that logger_info.json declares; empty if there is none
    starts: list[int] = field(default_factory=lambda: [0])
    files: list[str] = field(default_factory=list)
    scenario: dict[str, Any] = field(default_factory=dict)
    in_memory: bool = False

    def __len__(self) -> int:
        return len(self.columns["block_num"])

    def place(self, row: int, column: str | None = None) -> str:
        """Return the file, the row (counted from 1 below the header) and the column."""
        if self.files:
            index = bisect_right(self.starts, row) - 1
            inner = row - self.starts[index] + 1
            text = f"{self.files[index]}, row {inner} (line {inner + 1})"
        else:
            text = f"{self.name}, row {row + 1}"
        return text if column is None else f"{text}, column '{column}'"


def read_rows(source: object) -> LogRows:
    """Read a log folder, a TSV file, or a table in memory.

    Args:
        source: Path of an l2logger folder or of a TSV file; or a mapping from column name to
            values, a data frame, a NumPy record array, or a list of records.
    """
    if isinstance(source, LogRows):
        return source
    if isinstance(source, str | Path):
        path = Path(source)
        if path.is_dir():
            return _read_folder(path)
        if path.is_file():
            columns, _ = _read_tsv(path)
            return LogRows(str(path), columns, [], files=[str(path)])
        raise DataError(
            f"There is no log at {path}: give an l2logger folder (with {LOGGER_FILE}) or a TSV."
        )
    return _read_table(source)


def _read_folder(folder: Path) -> LogRows:
    infos = sorted(folder.rglob(LOGGER_FILE))
    if not infos:
        raise DataError(
            f"{folder} is not an l2logger folder: it has no {LOGGER_FILE} naming the measures."
        )
    if len(infos) > 1:
        names = ", ".join(str(info.parent.relative_to(folder)) for info in infos[:3])
        raise DataError(
            f"{folder} has {len(infos)} lifetimes ({names}{', ...' if len(infos) > 3 else ''}): "
            "give one of them."
        )
    root = infos[0].parent
    measures = _read_json(infos[0]).get("metrics_columns")
    if not isinstance(measures, list) or not all(isinstance(name, str) for name in measures):
        raise DataError(f"{infos[0]}: 'metrics_columns' must be a list of column names.")
    _refuse_empty_blocks(root)
    paths = sorted(root.rglob(DATA_FILE), key=_block_order)
    if not paths:
        raise DataError(f"{root} has no {DATA_FILE} below it, so it has no experiences.")
    _check_sums(root, paths)

    merged: dict[str, list[Any]] = {}
    rows = LogRows(str(root), merged, measures, starts=[], files=[])
    total = 0
    for path in paths:
        columns, count = _read_tsv(path)
        if merged:
            _same_columns(path, columns, merged, rows.files[0])
        for name, values in columns.items():
            merged.setdefault(name, []).extend(values)
        rows.starts.append(total)
        rows.files.append(str(path))
        total += count
    for name in measures:
        if name not in merged:
            raise DataError(
                f"{paths[0]} has no column '{name}', which {infos[0].name} lists as a measure."
            )
    scenario = root / SCENARIO_FILE
    rows.scenario = _read_json(scenario) if scenario.is_file() else {}
    return rows


def _check_sums(root: Path, paths: Sequence[Path]) -> None:
    """Reject a run's log that differs from the checksums in the run folder, if there are any."""
    folder = root.absolute().parent
    sums = read_sums(folder)
    listed = [name for name in sums if name.startswith(f"{root.absolute().name}/")]
    if not listed:
        return
    for name in listed:
        check_file(folder, name, sums)
    for path in paths:
        if path.absolute().relative_to(folder).as_posix() not in sums:
            raise DataError(f"{path} is not a block of the run: {folder / SUMS} does not list it.")


def _block_order(path: Path) -> tuple[str, int, str]:
    """Sort files by worker, then by the block number their folder is named after."""
    number = path.parent.name.split("-", 1)[0]
    return (str(path.parent.parent), int(number) if number.isdigit() else -1, path.parent.name)


def _refuse_empty_blocks(root: Path) -> None:
    for folder in sorted(root.glob("*/*-t*")):
        block = re.fullmatch(r"\d+-(train|test)", folder.name) and folder.is_dir()
        if block and not (folder / DATA_FILE).is_file():
            raise DataError(f"The block {folder} is empty: it has no {DATA_FILE}.")


def _same_columns(
    path: Path, columns: Mapping[str, Any], expected: Mapping[str, Any], first: str
) -> None:
    for name in expected:
        if name not in columns:
            raise DataError(f"{path} has no column '{name}', which {first} has.")
    for name in columns:
        if name not in expected:
            raise DataError(f"{path} has a column '{name}', which {first} does not have.")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not readable JSON: {error}.") from None
    if not isinstance(content, dict):
        raise DataError(f"{path} must hold a JSON object.")
    return content


def _read_tsv(path: Path) -> tuple[dict[str, list[str]], int]:
    try:
        text = read_text(path, _LONGEST)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not readable text: {error}.") from None
    if not text.strip():
        raise DataError(f"{path} is empty: it must have a header line and rows.")
    header_line, _, body = text.partition("\n")
    header = header_line.split("\t")
    _check_header(path, header)
    body = body.rstrip("\n")
    if not body.strip():
        raise DataError(f"{path} has a header but no rows: an empty block.")
    if '\t"' in body or '\n"' in body or body.startswith('"'):
        try:
            rows = list(csv.reader(io.StringIO(body), delimiter="\t"))
        except csv.Error as error:
            raise DataError(f"{path} is not readable text: {error}.") from None
        _check_widths(path, header, [len(row) for row in rows])
        return {
            name: list(col) for name, col in zip(header, zip(*rows, strict=True), strict=True)
        }, (len(rows))
    # Splitting the whole text once is several times faster than splitting it line by line.
    width = len(header)
    _check_widths(path, header, [line.count("\t") + 1 for line in body.split("\n")])
    cells = body.replace("\n", "\t").split("\t")
    return {name: cells[i::width] for i, name in enumerate(header)}, len(cells) // width


def _check_header(path: Path, header: Sequence[str]) -> None:
    for name in REQUIRED_COLUMNS:
        if name not in header:
            raise DataError(f"{path} has no column '{name}' (row 1 of the file must name it).")
    if len(set(header)) != len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise DataError(f"{path} has two columns named '{twice}'.")


def _check_widths(path: Path, header: Sequence[str], widths: Sequence[int]) -> None:
    if set(widths) == {len(header)}:
        return
    row = next(i for i, width in enumerate(widths) if width != len(header))
    column = header[min(widths[row], len(header) - 1)]
    raise DataError(
        f"{path}, row {row + 1} (line {row + 2}), column '{column}': the row has {widths[row]} "
        f"cells, but the header names {len(header)}."
    )


def _read_table(source: object) -> LogRows:
    if isinstance(source, Mapping):
        columns: dict[str, Any] = dict(source)
    elif getattr(getattr(source, "dtype", None), "names", None):
        columns = {name: source[name] for name in source.dtype.names}  # type: ignore[index,attr-defined]
    elif hasattr(source, "columns"):
        columns = {str(name): source[name].to_numpy() for name in source.columns}  # type: ignore[index]
    elif isinstance(source, Sequence) and source and all(isinstance(r, Mapping) for r in source):
        columns = {name: [record.get(name) for record in source] for name in source[0]}
    else:
        raise DataError(
            "A log must be a path or a table of columns (block_num, exp_num, block_type, task_name "
            f"and a measure), not {type(source).__name__}."
        )
    for name in ("block_num", "exp_num", "block_type", "task_name"):
        if name not in columns:
            raise DataError(f"The table has no column '{name}'.")
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise DataError(f"The columns of the table must be equally long and not empty: {lengths}.")
    return LogRows("the table", columns, [], in_memory=True)
