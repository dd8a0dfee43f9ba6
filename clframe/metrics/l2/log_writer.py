"""Write a lifetime in l2logger's on-disk format (version 1.1), so that any L2 tool can read it.

folder/logger_info.json                       the measures
folder/scenario_info.json                     what the scenario is
folder/<worker>/<block>-<train|test>/data-log.tsv   one row per experience
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from clframe.errors import DataError, SettingError
from clframe.metrics.l2.log_rows import DATA_FILE, LOGGER_FILE, SCENARIO_FILE, STANDARD_COLUMNS
from clframe.metrics.l2.result import plain, write_json
from clframe.utils.files import write_text
from clframe.utils.sums import mark_of

FORMAT_VERSION = "1.1"
_BLOCK_FOLDER = re.compile(r"(\d+)-(train|test)")
_SAFE = re.compile(r"[0-9a-zA-Z_.\-]+")


class L2LogWriter:
    """Writes the blocks of one lifetime, one file per block, each replaced in one step.

    A block reaches the disk when it ends, when the state is taken and on `flush`; so what a
    checkpoint knows is on disk, and what a killed run wrote later is dropped when it continues.

    Args:
        folder: Where the log goes; created if it does not exist.
        measures: Names of the measures; the first is the one metrics are computed from by default.
        scenario: What to store about the scenario (complexity, difficulty, scenario_type, ...).
        worker_id: Name of the worker, a folder name.
        resume: Continue a log that exists already; follow with `load_state_dict` or `truncate`.
        clock: Where time stamps come from.

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
                f"measures is {list(measures)!r}, but it must name at least one column by letters, "
                "digits, '_', '.' and '-', and none of l2logger's own columns."
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
        self._lines: list[str] = []
        self._marks: dict[str, dict[str, Any]] = {}
        self._positioned = not resume
        self._columns = [*STANDARD_COLUMNS, *sorted(self.measures)]
        if not resume and self._block_folders():
            raise DataError(f"{self.folder} already holds a log; choose another folder.")
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(
            self.folder / LOGGER_FILE,
            {"metrics_columns": self.measures, "log_format_version": FORMAT_VERSION},
        )
        write_json(self.folder / SCENARIO_FILE, plain(dict(scenario or {})))

    @property
    def blocks(self) -> int:
        """Number of blocks that have rows, the open one included."""
        return self._block + (1 if self._lines else 0)

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
                f"{self.folder} is continued: say where with `load_state_dict` or `truncate`."
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
            task: Name of the task, ``<label>_<variant>`` where variants matter.
            values: One value per measure; None and values that are not finite become "no value".
            params: Parameters of the task; a change of them starts a new regime.
            complete: Whether the experience ran to its end; others are ignored by metrics.
        """
        if self._kind is None:
            raise SettingError("Begin a block before recording an experience.")
        if not task.strip() or any(sign in task for sign in '\t\n\r"'):
            raise SettingError(
                f"The task name {task!r} must not be empty or hold tabs, line ends or quotes."
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
        self._exp_num += 1
        return self._exp_num - 1

    def flush(self) -> None:
        """Write the open block as it is now; a block without rows leaves no trace."""
        if not self._lines:
            return
        path = self._file(self._block, self._kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "\t".join(self._columns) + "\n" + "".join(self._lines)
        write_text(path, text)
        self._marks[path.relative_to(self.folder).as_posix()] = mark_of(text.encode())

    def end_block(self) -> None:
        """Write the open block, if any, and close it."""
        self.flush()
        self._block = self.blocks
        self._kind, self._lines = None, []

    def close(self) -> None:
        """End the log; another block may still be begun."""
        self.end_block()

    def state_dict(self) -> dict[str, Any]:
        """Write what is open and return the position, for `load_state_dict`."""
        self.flush()
        return {
            "block": self._block,
            "rows": len(self._lines),
            "exp_num": self._exp_num,
            "kind": self._kind,
            "subtype": self._subtype,
            "files": dict(self._marks),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Truncate the log on disk to a position and continue from there.

        A process that ends on the way leaves a log that can be continued from the same position.
        """
        block, rows, kind = int(state["block"]), int(state["rows"]), state["kind"]
        lines: list[str] = []
        if rows:
            path = self._file(block, kind)
            lines = _lines_of(path)[1 : rows + 1]
            if len(lines) < rows:
                raise DataError(f"{path} has {len(lines)} rows, but the run had written {rows}.")
        self._keep(block, self._file(block, kind).parent if rows else None)
        self._block, self._exp_num = block, int(state["exp_num"])
        self._kind, self._subtype, self._lines = kind, state["subtype"], lines
        self._marks, self._positioned = dict(state["files"]), True
        self.flush()

    def truncate(self, blocks: int) -> None:
        """Keep the first blocks of the log on disk, delete all others, and continue after them.

        Args:
            blocks: How many blocks to keep.
        """
        kept = self._keep(blocks)
        self._block, self._kind, self._lines, self._exp_num = blocks, None, [], 0
        self._marks = {}
        for folder in kept:
            path = folder / DATA_FILE
            content = "".join(_lines_of(path)).encode()
            self._marks[path.relative_to(self.folder).as_posix()] = mark_of(content)
        if blocks:
            cells = (_lines_of(kept[-1] / DATA_FILE) or [""])[-1].split("\t")
            place = self._columns.index("exp_num")
            if len(cells) <= place or not cells[place].isdecimal():
                raise DataError(f"{kept[-1] / DATA_FILE} does not end with a row of this log.")
            self._exp_num = int(cells[place]) + 1
        self._positioned = True

    def _keep(self, blocks: int, also: Path | None = None) -> list[Path]:
        """Delete what comes after the first blocks, the last first; returns the folders of these.

        Args:
            blocks: How many blocks to keep.
            also: The folder of the block after them, where that is kept as well.
        """
        folders = self._block_folders()
        names = {number: path for path, number in folders.items()}
        if blocks < 0 or any(number not in names for number in range(blocks)):
            raise DataError(
                f"{self.folder} cannot be truncated to {blocks} blocks: it has {len(folders)}."
            )
        for folder, number in sorted(folders.items(), key=lambda item: item[1], reverse=True):
            if number >= blocks and folder != also:
                shutil.rmtree(folder)
        return [names[number] for number in range(blocks)]

    def _file(self, block: int, kind: str | None) -> Path:
        return self.folder / self._worker / f"{block}-{kind}" / DATA_FILE

    def _block_folders(self) -> dict[Path, int]:
        worker = self.folder / self._worker
        names = sorted(worker.iterdir()) if worker.is_dir() else []
        matches = [(_BLOCK_FOLDER.fullmatch(path.name), path) for path in names]
        return {path: int(match[1]) for match, path in matches if match}


def _lines_of(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read to continue the log: {error}.") from None


def _quoted(text: str) -> str:
    """Quote a cell that holds quotes by doubling them, as l2logger does."""
    return '"' + text.replace('"', '""') + '"' if '"' in text else text


def _number(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else repr(float(value))
