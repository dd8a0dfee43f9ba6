"""Loggers that write into the run folder: CSV and TensorBoard.

A resumed run continues in the same files. Rows that were logged after its checkpoint are removed
first, so no point appears twice.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from lightning.fabric.loggers.csv_logs import CSVLogger, _ExperimentWriter
from lightning.fabric.loggers.tensorboard import TensorBoardLogger

from clframe.hookspecs import hookimpl
from clframe.recording.logger import RunLogger
from clframe.recording.media import Media
from clframe.runs import append_file
from clframe.runs.csv_prefix import first_rows, with_columns
from clframe.utils.checksums import PrefixSum, mark_of
from clframe.utils.console import warn_user
from clframe.utils.files import write_text
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.registry import Registry


class CSVTable(CSVLogger, RunLogger):
    """Lightning's CSV logger, which can also continue an existing table."""

    title = "csv"
    numbers_only = True

    def __init__(self, run_dir: Path, flush_every_n_steps: int) -> None:
        super().__init__(run_dir, "", "csv", flush_logs_every_n_steps=flush_every_n_steps)
        self._file = run_dir / "csv" / _ExperimentWriter.NAME_METRICS_FILE
        self._name_in_run = str(self._file.relative_to(run_dir))
        self._rows = 0
        self._mark: dict[str, Any] = {"rows": 0, "columns": [], **mark_of(b"")}

    @property
    def experiment(self) -> _ExperimentWriter:
        """The writer; on first use the table is truncated to the rows of this run."""
        if self._experiment is None:
            columns = self._mark["columns"]
            kept = first_rows(self._file, self._mark["rows"], columns)
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._experiment = _Table(str(self._file.parent))
            self._experiment.metrics_keys = list(columns)
            if kept:  # In one step, so that a run that ends here still has its rows.
                write_text(self._file, kept)
            else:
                self._file.unlink(missing_ok=True)
        return self._experiment

    def expect(self, names: Sequence[str]) -> None:
        """Add columns for numbers that later rows will have; each new one rewrites the table."""
        assert isinstance(self.experiment, _Table)
        self.experiment.expected.update(names)

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Add one row."""
        super().log_metrics(dict(metrics), step)
        self._rows += 1

    def state_dict(self) -> dict[str, Any]:
        """Return the number of rows, after writing them all."""
        if isinstance(self._experiment, _Table):
            self.save()
            columns = list(self._experiment.metrics_keys)
            self._mark = {"rows": self._rows, "columns": columns, **self._experiment.sum.mark()}
        return dict(self._mark)

    def written_files(self) -> dict[str, dict[str, Any]]:
        """Return the mark of the table when the state was taken."""
        return {self._name_in_run: self._mark}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after this number of rows."""
        self._mark, self._rows, self._experiment = dict(state), state["rows"], None


class _Table(_ExperimentWriter):
    """Lightning's writer, which also replaces a table atomically if it needs new columns."""

    def __init__(self, log_dir: str) -> None:
        super().__init__(log_dir)
        self.sum = PrefixSum(Path(self.metrics_file_path))
        self.expected: set[str] = set()

    def _record_new_keys(self) -> set[str]:
        new = super()._record_new_keys()
        ahead = self.expected.difference(self.metrics_keys)
        self.metrics_keys = sorted([*self.metrics_keys, *ahead])
        self.expected = set()
        return new | ahead

    def _check_log_dir_exists(self) -> None:
        """Do nothing: existing files are ours and are not deleted."""

    def _rewrite_with_new_header(self, fieldnames: list[str]) -> None:
        path = Path(self.metrics_file_path)
        write_text(path, with_columns(path, fieldnames))
        self.sum = PrefixSum(path)


class Board(TensorBoardLogger, RunLogger):
    """Lightning's TensorBoard logger, which can also continue an existing board.

    Args:
        run_dir: The run folder.
        run_config: The resolved config of the run, logged as text at the start and, with the
            metrics at the end, as hyperparameters.
    """

    title = "tensorboard"
    takes_media = True

    def __init__(self, run_dir: Path, run_config: Mapping[str, Any] | None = None) -> None:
        # Each start writes its own file, because two starts may fall into the same second.
        suffix = f".{os.getpid()}.{time.time_ns()}"
        super().__init__(run_dir, "", "tensorboard", filename_suffix=suffix)
        self._run_dir, self._folder = run_dir, run_dir / "tensorboard"
        self._config = dict(run_config or {})
        self._metrics: dict[str, float] = {}
        self._skipped: set[str] = set()
        self._marks: dict[str, dict[str, Any]] = {}
        self._sums: dict[str, PrefixSum] = {}

    @property
    def experiment(self) -> Any:
        """The writer; on first use files are truncated to the content of this run."""
        if self._experiment is None:
            for path in self._files():
                if path.name in self._marks:
                    append_file.truncate(path, self._marks[path.name]["bytes"])
                else:
                    path.unlink()
            self._sums = {}
            writer = TensorBoardLogger.experiment.fget(self)  # type: ignore[attr-defined]
            events = writer.file_writer.event_writer
            if hasattr(events, "_ev_writer"):
                # tensorboardX writes from a thread that a full disk would end silently, and its
                # flush does not wait for it. One row per epoch needs no thread.
                events.add_event = events._ev_writer.write_event
            if self._config and not self._marks:  # a new board
                text = yaml.safe_dump(self._config, sort_keys=False)
                writer.add_text("config", f"```yaml\n{text}```", 0)
        return self._experiment

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Add numbers; keep those of the whole run for the hyperparameters."""
        super().log_metrics(dict(metrics), step)
        self._metrics |= {k: v for k, v in metrics.items() if k.startswith("metrics/")}

    def log_media(
        self, media: Sequence[Media], step: int, numbers: Mapping[str, float] | None = None
    ) -> None:
        """Add images and videos in their formats, tables and texts as text."""
        for medium in media:
            path = self._run_dir / medium.path
            if not path.is_file():
                continue
            if medium.kind in ("table", "text"):
                text = path.read_text()
                shown = markdown(json.loads(text)) if medium.kind == "table" else text
                self.experiment.add_text(medium.name, shown, step)
            elif path.suffix == ".mp4":
                if medium.name not in self._skipped:
                    self._skipped.add(medium.name)
                    warn_user(
                        f"logger tensorboard cannot show MP4 and skips '{medium.name}'; "
                        "use logging.videos=gif to show videos"
                    )
            else:
                self._add_image(medium.name, path, step)

    def _add_image(self, name: str, path: Path, step: int) -> None:
        """Add a PNG, JPEG or GIF with its own bytes, so that a video stays a video."""
        from clframe.utils.image_files import opened_image

        writer = self.experiment._get_file_writer()
        ours = type(writer).__module__.startswith("tensorboardX")
        where = "tensorboardX.proto" if ours else "tensorboard.compat.proto"
        Summary: Any = importlib.import_module(f"{where}.summary_pb2").Summary
        with opened_image(path) as image:
            width, height = image.size
        shown = Summary.Image(
            height=height, width=width, colorspace=3, encoded_image_string=path.read_bytes()
        )
        writer.add_summary(Summary(value=[Summary.Value(tag=name, image=shown)]), step)

    def finalize(self, status: str) -> None:
        """Close the board; if the run has finished, add hyperparameters and metrics."""
        if status == "success" and self._config and self._metrics:
            values = {k: v for k, v in flat(self._config).items() if v is not None}
            writer = self.experiment._get_file_writer()
            ours = type(writer).__module__.startswith("tensorboardX")
            where = "tensorboardX" if ours else "torch.utils.tensorboard"
            hparams: Any = importlib.import_module(f"{where}.summary").hparams
            for summary in hparams(values, self._metrics):
                writer.add_summary(summary)
        super().finalize(status)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("events.out.tfevents.*"))

    def state_dict(self) -> dict[str, Any]:
        """Return the mark of each file, after writing everything logged."""
        if self._experiment is not None:
            self._experiment.flush()
            for path in self._files():
                prefix = self._sums.setdefault(path.name, PrefixSum(path))
                self._marks[path.name] = prefix.mark()
        return {"marks": dict(self._marks)}

    def written_files(self) -> dict[str, dict[str, Any]]:
        """Return the marks of the event files when the state was taken."""
        return {f"{self._folder.name}/{name}": mark for name, mark in self._marks.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after these marks."""
        self._marks, self._experiment = dict(state["marks"]), None


def csv(run_dir: Path, flush_every_n_steps: int = 100) -> CSVTable:
    """Return a table of all logged numbers, ``csv/metrics.csv`` in the run folder.

    Args:
        run_dir: The run folder.
        flush_every_n_steps: Write to disk after this number of steps that logged something.
    """
    at_least(flush_every_n_steps, 1, "logger.csv.flush_every_n_steps")
    return CSVTable(run_dir, flush_every_n_steps)


def tensorboard(run_dir: Path, run_config: dict[str, Any]) -> Board:
    """Return a TensorBoard logger, which writes to ``tensorboard/`` in the run folder.

    Args:
        run_dir: The run folder.
        run_config: The resolved config of the run.
    """
    return Board(run_dir, run_config)


def markdown(table: Mapping[str, Any]) -> str:
    r"""Return a table as Markdown.

    >>> markdown({"columns": ["a", "b"], "rows": [["x", 0.25], ["y", None]]})
    '| a | b |\n| --- | --- |\n| x | 0.25 |\n| y | |'
    """
    lines = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    return "\n".join(
        "|" + "".join(f" {_shown(cell)} |".replace("  ", " ") for cell in line) for line in lines
    )


def _shown(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell).replace("|", "\\|")


def flat(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Return nested settings by full names; values that are not plain become text.

    >>> flat({"trainer": {"devices": [0], "batch_size": 8}, "seed": 0})
    {'trainer.devices': '[0]', 'trainer.batch_size': 8, 'seed': 0}
    """
    settings: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            settings |= flat(value, f"{before}{name}.")
        else:
            plain = value is None or isinstance(value, bool | int | float | str)
            settings[f"{before}{name}"] = value if plain else str(value)
    return settings


@hookimpl
def register(registry: Registry) -> None:
    """Add the loggers."""
    registry.add("logger", "csv", csv)
    registry.add("logger", "tensorboard", tensorboard)
