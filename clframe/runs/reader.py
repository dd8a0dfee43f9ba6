"""Find run folders and read their files.

A run folder holds `results.json` (schema 1), and usually `events.jsonl` and `config.yaml`. An
invalid `results.json` raises an error with the path and the field. Unknown fields are ignored, so
that newer runs can still be read. `clframe.Result.load` reads only the results.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from clframe.core.results import Result
from clframe.errors import RunFolderError
from clframe.recording.results_file import (
    RESULTS,
    ResultsFile,
    number,
    read_text,
    run_folder,
    unfinished,
)
from clframe.utils.checksums import check_file, read_sums
from clframe.utils.regular import parse_json

CONFIG = "config.yaml"
EVENTS = "events.jsonl"
LOG = "log"
"""The folder of the L2 lifetime log."""
LONGEST_CONFIG = 1 << 20
"""Maximum size of a config.yaml in bytes."""


@dataclass(frozen=True)
class Epoch:
    """One line of training progress: mean loss of an epoch of an experience."""

    experience: int
    epoch: int
    loss: float


@dataclass(frozen=True)
class Run:
    """A finished run, read from its folder."""

    folder: Path
    result: Result
    epochs: tuple[Epoch, ...] = ()
    config: str | None = None
    """The text of `config.yaml`, if there is one."""
    further: Mapping[str, str] = field(default_factory=dict)
    """Further top-level scalars of `results.json`, such as where the data came from."""
    notes: tuple[str, ...] = ()
    """Remarks for the reader of a report, one sentence each."""

    @cached_property
    def metrics(self) -> dict[str, float | None]:
        """Scalar metrics by full name, such as `openloris.bwt`; None where undefined."""
        return self.result.scalars()

    @cached_property
    def timing(self) -> dict[str, float | None]:
        """Seconds, speed and memory; None where unknown."""
        timing = self.result.timing
        return {k: None if math.isnan(v) else float(v) for k, v in timing.items()}

    @cached_property
    def settings(self) -> dict[str, Any] | None:
        """The settings as nested dictionaries, None if the run has no `config.yaml`.

        Raises:
            RunFolderError: The file is not a YAML mapping.
        """
        return None if self.config is None else parse_config(self.config, self.folder / CONFIG)


@dataclass(frozen=True)
class RunFolders:
    """Folders of finished runs, and of runs that have not finished."""

    finished: tuple[Path, ...]
    unfinished: tuple[Path, ...]


def find_runs(paths: Iterable[Path]) -> RunFolders:
    """Find the run folders at or below each path, each once, in order of their names.

    Args:
        paths: Run folders, `results.json` files, or any folders above run folders.

    Returns:
        Folders with a `results.json`, and folders that only have the other files of a run.

    Raises:
        RunFolderError: A path does not exist, or has no finished run.
    """
    folders: dict[bool, dict[Path, Path]] = {True: {}, False: {}}
    for path in paths:
        if not path.exists():
            raise RunFolderError(f"{path} does not exist; name a run folder or a folder above it.")
        start = run_folder(path)
        if not start.is_dir():
            raise RunFolderError(f"{path} is a file, not a run folder or a folder above it.")
        count = 0
        for folder, finished in _walk(start):
            folders[finished].setdefault(folder.resolve(), folder)
            count += finished
        if not count:
            raise RunFolderError(unfinished(start))
    return RunFolders(tuple(folders[True].values()), tuple(folders[False].values()))


def _walk(start: Path) -> Iterable[tuple[Path, bool]]:
    for parent, below, files in os.walk(start):
        if RESULTS in files:
            below.clear()  # Runs are never inside of runs.
            yield Path(parent), True
        elif EVENTS in files:
            below.clear()
            yield Path(parent), False
        else:
            below.sort()


def read_run(folder: Path) -> Run:
    """Read one run folder: its results, its training losses and its settings.

    Raises:
        RunFolderError: `results.json` is missing, is not JSON, has another schema or lacks a field;
            or a file has been changed since the run wrote it.
    """
    file = ResultsFile(folder)
    result = Result.from_file(file, folder)
    sums = read_sums(folder)
    for name in (EVENTS, CONFIG):
        check_file(folder, name, sums)
    epochs, notes = read_epochs(folder / EVENTS)
    config = read_text(folder / CONFIG, LONGEST_CONFIG)
    return Run(folder, result, epochs, config, file.further(), notes)


def parse_config(text: str, path: Path) -> dict[str, Any]:
    """Return the settings in the text of a `config.yaml`.

    Raises:
        RunFolderError: The text is not a YAML mapping.
    """
    from clframe.utils.plain_yaml import read_yaml

    try:
        settings = read_yaml(text)
    except ValueError as error:
        where = f" ({error})" if str(error) else ""
        raise RunFolderError(f"{path} is not valid YAML{where}; remove or repair it.") from error
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise RunFolderError(f"{path} must be a mapping of settings, not a list or a word.")
    return settings


def read_epochs(path: Path) -> tuple[tuple[Epoch, ...], tuple[str, ...]]:
    """Return the epoch events in order, the last one of each epoch, and remarks."""
    text = read_text(path)
    if text is None:
        return (), (f"{path.name} is missing, so there is no loss curve.",)
    epochs: dict[tuple[int, int], Epoch] = {}
    unreadable, not_finite = [], []
    for line_number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            event = parse_json(line)
        except ValueError:
            unreadable.append(line_number)  # a run killed while writing leaves such a line
            continue
        if not isinstance(event, dict) or event.get("event") != "epoch":
            continue
        experience, epoch = event.get("experience"), event.get("epoch")
        loss = number(event.get("loss"))
        if type(experience) is not int or type(epoch) is not int:
            continue
        if loss is not None:
            epochs[experience, epoch] = Epoch(experience, epoch, loss)
        elif "loss" in event:
            not_finite.append(f"epoch {epoch} of experience {experience}")
    notes = []
    if not_finite:
        notes.append(
            f"The training loss was not finite in {len(not_finite)} epoch(s), first in "
            f"{not_finite[0]}."
        )
    if unreadable:
        shown = ", ".join(map(str, unreadable[:5])) + (", ..." if len(unreadable) > 5 else "")
        notes.append(f"{path.name}: {len(unreadable)} unreadable line(s) left out ({shown}).")
    return tuple(epochs[key] for key in sorted(epochs)), tuple(notes)
