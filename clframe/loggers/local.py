"""Loggers that write into the run folder: CSV and TensorBoard.

A resumed run continues in the same files, from which what was logged after the checkpoint is
removed; so no point is there twice.
"""

from __future__ import annotations

import csv as table
import io
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.fabric.loggers.csv_logs import CSVLogger, _ExperimentWriter
from lightning.fabric.loggers.tensorboard import TensorBoardLogger

from clframe.hookspecs import hookimpl
from clframe.runs import append_file
from clframe.utils.files import write_text

if TYPE_CHECKING:
    from clframe.core.registry import Registry


class CSVTable(CSVLogger):
    """Lightning's CSV logger, able to continue an existing table."""

    def __init__(self, run_dir: Path, flush_every_n_steps: int) -> None:
        super().__init__(run_dir, "", "csv", flush_logs_every_n_steps=flush_every_n_steps)
        self._file = run_dir / "csv" / _ExperimentWriter.NAME_METRICS_FILE
        self._rows = 0

    @property
    def experiment(self) -> _ExperimentWriter:
        """The writer; on first use the table is truncated to the rows that this run knows."""
        if self._experiment is None:
            kept, names = _first_rows(self._file, self._rows)
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._experiment = _Table(str(self._file.parent))
            self._experiment.metrics_keys = names
            self._file.unlink(missing_ok=True)
            if kept:
                write_text(self._file, kept)
        return self._experiment

    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        """Add one row."""
        super().log_metrics(metrics, step)
        self._rows += 1

    def state_dict(self) -> dict[str, Any]:
        """How many rows there are, which are on disk then."""
        if self._experiment is not None:
            self.save()
            append_file.fsync(self._file)
        return {"rows": self._rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after so many rows."""
        self._rows, self._experiment = state["rows"], None


class _Table(_ExperimentWriter):
    def _check_log_dir_exists(self) -> None:
        """Whatever is there is ours; it is not deleted."""


def _first_rows(path: Path, n: int) -> tuple[str, list[str]]:
    """The first rows of a table with its heading, as text, and the names of its columns."""
    if n == 0 or not path.exists():
        return "", []
    with path.open(newline="") as file:
        reader = table.DictReader(file)
        names = list(reader.fieldnames or [])
        rows = [row for _, row in zip(range(n), reader, strict=False)]
    text = io.StringIO(newline="")
    writer = table.DictWriter(text, names)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue(), names


class Board(TensorBoardLogger):
    """Lightning's TensorBoard logger, able to continue an existing board."""

    def __init__(self, run_dir: Path) -> None:
        # A file of its own for each start: the one before may have been in the same second.
        suffix = f".{os.getpid()}.{time.time_ns()}"
        super().__init__(run_dir, "", "tensorboard", filename_suffix=suffix)
        self._folder = run_dir / "tensorboard"
        self._lengths: dict[str, int] = {}

    @property
    def experiment(self) -> Any:
        """The writer; on first use files are truncated to what this run knows."""
        if self._experiment is None:
            for path in self._files():
                if path.name in self._lengths:
                    append_file.truncate(path, self._lengths[path.name])
                else:
                    path.unlink()
            writer = TensorBoardLogger.experiment.fget(self)  # type: ignore[attr-defined]
            events = writer.file_writer.event_writer
            if hasattr(events, "_ev_writer"):
                # tensorboardX writes from a thread that a full disk would end in silence, and its
                # flush does not wait for it; one row per epoch needs no thread.
                events.add_event = events._ev_writer.write_event
        return self._experiment

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("events.out.tfevents.*"))

    def state_dict(self) -> dict[str, Any]:
        """How long each file is, all of which is on disk then."""
        if self._experiment is not None:
            self._experiment.flush()
            self._lengths = {path.name: append_file.fsync(path) for path in self._files()}
        return {"lengths": dict(self._lengths)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after what was in the files then."""
        self._lengths, self._experiment = dict(state["lengths"]), None


def csv(run_dir: Path, flush_every_n_steps: int = 100) -> CSVTable:
    """A table of all logged numbers, ``csv/metrics.csv`` in the run folder.

    Args:
        run_dir: The run folder.
        flush_every_n_steps: Write to disk after so many steps that logged something.
    """
    return CSVTable(run_dir, flush_every_n_steps)


def tensorboard(run_dir: Path) -> Board:
    """TensorBoard event files, ``tensorboard/`` in the run folder."""
    return Board(run_dir)


@hookimpl
def register(registry: Registry) -> None:
    """Add the loggers."""
    registry.add("logger", "csv", csv)
    registry.add("logger", "tensorboard", tensorboard)
