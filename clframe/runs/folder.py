"""The folder of one run: where it is and what is in it."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from clframe.checkpoint.checkpointer import CheckpointSettings
from clframe.checkpoint.store import Checkpoints
from clframe.core.results import Result
from clframe.core.results_file import RESULTS, read_text
from clframe.errors import RunFolderError
from clframe.runs.reader import CONFIG, EVENTS, parse_config
from clframe.utils.files import write_json, write_text
from clframe.utils.lock import Lock


class RunFolder:
    """Paths and writers of a run's files.

    Args:
        path: The folder; made when it is first needed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / CONFIG
        self.results = path / RESULTS
        self.matrix = path / "matrix.csv"
        self.events = path / EVENTS
        self.log = path / "log"
        self.lock = Lock(path / ".lock")
        self.saving = CheckpointSettings()
        """How often the run is saved."""
        self.identity: dict[str, Any] = {}
        """What the run is made of; see :mod:`clframe.checkpoint.identity`."""
        self.allowed: Sequence[str] = ()
        """What of it may be different from what was saved."""
        self._content: dict[str, Any] = {}

    @property
    def checkpoints(self) -> Checkpoints:
        """The run's checkpoints."""
        return Checkpoints(self.path / "checkpoints", self.saving.keep)

    @classmethod
    def default(cls, stream: str, strategy: str, seed: int) -> RunFolder:
        """A new folder under ``runs/``, named by the time and the seed."""
        now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        base = Path("runs") / stream / strategy
        path, number = base / f"{now}-s{seed}", 1
        while path.exists():  # two runs of one seed in one second
            number += 1
            path = base / f"{now}-s{seed}-{number}"
        return cls(path)

    def check(self) -> None:
        """Refuse a place that cannot be written or holds another run, before anything is made.

        Raises:
            RunFolderError: With the path and the reason.
        """
        if self.path.exists() and not self.path.is_dir():
            raise RunFolderError(f"run_dir '{self.path}' is a file; give a folder")
        if self.config.exists():
            raise RunFolderError(
                f"run_dir '{self.path}' holds a run already; give another folder, or "
                f"resume={self.path} to continue it"
            )
        parent = self.path
        while not parent.exists():
            parent = parent.parent
        if not parent.is_dir():
            raise RunFolderError(f"run_dir '{self.path}' cannot be made: '{parent}' is a file")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise RunFolderError(f"run_dir '{self.path}' cannot be written: no right on '{parent}'")

    def enter(self, config: dict[str, Any], new: bool = True) -> None:
        """Make the folder, or take over one that is there, and let no other process in.

        Args:
            config: The resolved config.
            new: Whether the run begins here; else it is continued, if it was ever saved.
        """
        self._content = config
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock.take()
            self.checkpoints.tidy()
            if not new and (self.path / "checkpoints" / "last.pt").exists():
                raise RunFolderError(
                    f"'{self.path}/checkpoints/last.pt' was made by an earlier version of clframe, "
                    "whose runs this one cannot continue"
                )
            if new or not self.checkpoints.numbers():
                self.write_config()
                write_text(self.events, "")
        except OSError as error:
            self.lock.release()
            raise RunFolderError(
                f"run_dir '{self.path}' cannot be written: {error.strerror}"
            ) from error

    def write_config(self) -> None:
        """Say in config.yaml what the run is made with."""
        if self._content:
            write_text(self.config, yaml.safe_dump(self._content, sort_keys=False))

    def read_config(self) -> dict[str, Any]:
        """The config of a run that is already there."""
        text = read_text(self.config) if self.config.is_file() else None
        if text is None:
            raise RunFolderError(f"'{self.path}' is not a run folder: it has no {CONFIG}")
        config = parse_config(text, self.config)
        if not config:
            raise RunFolderError(f"'{self.config}' is not a config: it holds no settings")
        return config

    def write(self, result: Result) -> None:
        """Write the matrix and the results."""
        write_text(self.matrix, result.matrix.to_csv())
        write_json(self.results, result.to_json())
