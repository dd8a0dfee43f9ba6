"""Write a lifetime in l2logger's on-disk format (version 1.1), so that any L2 tool can read it.

folder/logger_info.json         the measures
folder/scenario_info.json       description of the scenario
folder/<worker>/data-log.tsv    one row per experience, with the number and kind of its block

l2logger makes a folder for each block. Its reader, like this one, collects every ``data-log.tsv``
below the log, and each row names its block, so one file holds a lifetime of any length.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from clframe.errors import DataError, SettingError
from clframe.metrics.l2.log_rows import DATA_FILE, LOGGER_FILE, SCENARIO_FILE, STANDARD_COLUMNS
from clframe.metrics.l2.result import plain, write_json
from clframe.utils.checksums import PrefixSum, check_mark
from clframe.utils.files import make_folder, sync_folder

FORMAT_VERSION = "1.1"
_BLOCK_FOLDER = re.compile(r"(\d+)-(train|test)")
_SAFE = re.compile(r"[0-9a-zA-Z_.\-]+")


class L2LogWriter:
    """Writer of the blocks of one lifetime, to a file that only grows.

    A block is written when it ends, when the state is taken and on `flush`. The state contains
    the length of the file, so a continued run drops rows that a killed run wrote later.

    Args:
        folder: Folder of the log; created if it does not exist.
        measures: Names of the measures; metrics use the first by default.
        scenario: Metadata of the scenario (complexity, difficulty, scenario_type, ...).
        worker_id: Name of the worker, a folder name.
        resume: Continue a log that exists already; follow with `load_state_dict` or `truncate`.
        clock: Source of time stamps.

    Example::

        writer = L2LogWriter("run/log", ["accuracy"])
        writer.begin_block("train")
        writer.record("digits_01", {"accuracy": 0.71})
        writer.end_block()
    """

    def __init__(
        self,
        folder: str | Path,
        measures: Sequence[str],
        scenario: Mapping[str, Any] | None = None,
        worker_id: str = "worker-default",
        resume: bool = False,
        clock: Callable[[], datetime] = datetime.now,
    ) -> None:
        if not measures or any(not _SAFE.fullmatch(m) or m in STANDARD_COLUMNS for m in measures):
            raise SettingError(
                f"measures is {list(measures)!r}, but it must name at least one column with "
                "letters, digits, '_', '.' and '-', and none of l2logger's own columns."
            )
        if not _SAFE.fullmatch(worker_id):
            raise SettingError(
                f"worker_id is {worker_id!r}, but it must be letters, digits, '_', '.' and '-'."
            )
        self.folder = Path(folder)
        self.measures = list(measures)
        self._worker = worker_id
        self._clock = clock
        self._block = 0  # number of the open block, or of the next one
        self._exp_num = 0
        self._kind: str | None = None
        self._subtype = "wake"
        self._rows = 0  # of the open block
        self._lines: list[str] = []  # not yet in the file
        self.path = self.folder / worker_id / DATA_FILE
        self._sum = PrefixSum(self.path)
        self._positioned = not resume
        self._columns = [*STANDARD_COLUMNS, *sorted(self.measures)]
        if not resume and (self.path.exists() or self._block_folders()):
            raise DataError(f"{self.folder} already holds a log; choose another folder.")
        make_folder(self.folder)
        write_json(
            self.folder / LOGGER_FILE,
            {"metrics_columns": self.measures, "log_format_version": FORMAT_VERSION},
        )
        write_json(self.folder / SCENARIO_FILE, plain(dict(scenario or {})))

    @property
    def blocks(self) -> int:
        """Number of blocks that have rows, including the open one."""
        return self._block + (1 if self._rows else 0)

    @property
    def kind(self) -> str | None:
        """The kind of the open block; None if none is open."""
        return self._kind

    def begin_block(self, kind: str, subtype: str = "wake") -> int:
        """Start a block, ending an open one, and return its number.

        Args:
            kind: ``train`` or ``test``.
            subtype: ``wake`` or ``sleep``.
        """
        if kind not in ("train", "test") or subtype not in ("wake", "sleep"):
            raise SettingError(
                f"A block is 'train' or 'test' and 'wake' or 'sleep', not {kind!r} and {subtype!r}."
            )
        if not self._positioned:
            raise SettingError(
                f"{self.folder} continues a log: call `load_state_dict` or `truncate` first."
            )
        self.end_block()
        self._kind, self._subtype = kind, subtype
        return self._block

    def record(
        self,
        task: str,
        values: Mapping[str, float | None],
        params: Mapping[str, Any] | None = None,
        complete: bool = True,
    ) -> int:
        """Add one experience to the open block and return its number.

        Args:
            task: Name of the task, ``<label>_<variant>`` if variants matter.
            values: One value per measure; None and values that are not finite become "no value".
            params: Parameters of the task; a change starts a new regime.
            complete: Whether the experience ran to its end; metrics ignore others.
        """
        if self._kind is None:
            raise SettingError("Begin a block before recording an experience.")
        if not task.strip() or any(sign in task for sign in '\t\n\r"'):
            raise SettingError(
                f"The task name {task!r} must not be empty or contain tabs, line ends or quotes."
            )
        if set(values) != set(self.measures):
            raise SettingError(
                f"values has {sorted(values)}, but this log measures {sorted(self.measures)}."
            )
        cells = [
            str(self._block),
            str(self._exp_num),
            self._worker,
            self._kind,
            self._subtype,
            task,
            _quoted(json.dumps(plain(dict(params or {})), sort_keys=True)),
            "complete" if complete else "incomplete",
            self._clock().strftime("%Y%m%dT%H%M%S.%f"),
            *(_number(values[name]) for name in sorted(self.measures)),
        ]
        self._lines.append("\t".join(cells) + "\n")
        self._rows += 1
        self._exp_num += 1
        return self._exp_num - 1

    def flush(self) -> None:
        """Write the rows recorded so far; a block without rows is not written."""
        if not self._lines:
            return
        is_new = not self.path.exists()
        if is_new:
            make_folder(self.path.parent)
        with self.path.open("a", encoding="utf-8") as file:
            if not file.tell():
                file.write("\t".join(self._columns) + "\n")
            file.write("".join(self._lines))
        if is_new:
            sync_folder(self.path.parent)
        self._lines = []

    def end_block(self) -> None:
        """Write the open block, if any, and close it."""
        self.flush()
        self._block = self.blocks
        self._kind, self._rows = None, 0

    def close(self) -> None:
        """Close the log; another block may still begin."""
        self.end_block()

    def state_dict(self) -> dict[str, Any]:
        """Write open rows and return the position, for `load_state_dict`."""
        self.flush()
        return {
            "block": self._block,
            "rows": self._rows,
            "exp_num": self._exp_num,
            "kind": self._kind,
            "subtype": self._subtype,
            "files": {self.path.relative_to(self.folder).as_posix(): self._sum.mark()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Truncate the log on disk to a position and continue from there.

        A process that ends in between leaves a log that can be continued from the same position.
        """
        check_position(state)
        block, rows, kind = int(state["block"]), int(state["rows"]), state["kind"]
        (mark,) = state["files"].values()
        length = 0
        n_rows = 0
        for line in _lines_of(self.path):
            if length >= mark["bytes"] or not line.endswith("\n"):
                break
            n_rows += line.startswith(f"{block}\t")
            length += len(line.encode())
        if n_rows < rows:
            raise DataError(
                f"{self.path} has {n_rows} rows of block {block}, but the run had written {rows}."
            )
        self._cut(min(length, int(mark["bytes"])))
        self._block, self._exp_num = block, int(state["exp_num"])
        self._kind, self._subtype, self._rows = kind, state["subtype"], rows

    def truncate(self, blocks: int) -> None:
        """Keep the first blocks of the log on disk, delete all others, and continue after them.

        Args:
            blocks: How many blocks to keep.
        """
        lines = _lines_of(self.path)
        numbers = [_integer(line, "block_num", self._columns) for line in lines[1:]]
        there = len({number for number in numbers if number is not None})
        if not 0 <= blocks <= there:
            raise DataError(f"Cannot truncate {self.folder} to {blocks} blocks: it has {there}.")
        kept = [line for line, n in zip(lines[1:], numbers, strict=True) if (n or 0) < blocks]
        exp_num = _integer(kept[-1], "exp_num", self._columns) if kept else -1
        if exp_num is None or (kept and None in numbers[: len(kept)]):
            raise DataError(f"{self.path} does not end with a row of this log.")
        if not blocks:
            for folder in self._block_folders():
                shutil.rmtree(folder)
        self._cut(sum(len(line.encode()) for line in [*lines[:1], *kept]) if kept else 0)
        self._block, self._kind, self._rows, self._exp_num = blocks, None, 0, exp_num + 1

    def _cut(self, length: int) -> None:
        """Truncate the file to this many bytes, and continue there."""
        if self.path.exists() and self.path.stat().st_size > length:
            os.truncate(self.path, length)
        self._sum, self._lines, self._positioned = PrefixSum(self.path), [], True

    def _block_folders(self) -> list[Path]:
        """Return the folders of single blocks, as l2logger writes them."""
        worker = self.path.parent
        names = sorted(worker.iterdir()) if worker.is_dir() else []
        return [path for path in names if _BLOCK_FOLDER.fullmatch(path.name)]


def check_position(state: Any) -> None:
    """Check that a value is a position in a log.

    Raises:
        ValueError: It is not a result of ``L2LogWriter.state_dict``.
    """
    good = isinstance(state, Mapping) and isinstance(state.get("files"), Mapping)
    good = good and all(type(state.get(key)) is int for key in ("block", "rows", "exp_num"))
    good = good and state.get("kind") in (None, "train", "test")
    if not good or state.get("subtype") not in ("wake", "sleep") or len(state["files"]) != 1:
        raise ValueError(f"{str(state)[:40]!r} is not a position in a lifetime log")
    check_mark(*state["files"].values())


def _lines_of(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.readlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"Cannot read {path} to continue the log: {error}.") from None


def _integer(line: str, column: str, columns: Sequence[str]) -> int | None:
    """Return the number in a column of a row, or None if there is none."""
    cells, position = line.split("\t"), columns.index(column)
    return int(cells[position]) if position < len(cells) and cells[position].isdecimal() else None


def _quoted(text: str) -> str:
    """Quote a cell that holds quotes by doubling them, as l2logger does."""
    return '"' + text.replace('"', '""') + '"' if '"' in text else text


def _number(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else repr(float(value))
