"""The folder of one run: where it is and what is in it."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import yaml

from clframe.errors import RunFolderError
from clframe.files import write_json, write_text
from clframe.results import Result


class RunFolder:
    """Paths and writers of a run's files.

    Args:
        path: The folder; made when it is first needed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.results = path / "results.json"
        self.matrix = path / "matrix.csv"
        self.events = path / "events.jsonl"
        self.checkpoint = path / "checkpoints" / "last.pt"
        self.log = path / "log"

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

    def create(self, config: dict[str, Any]) -> None:
        """Make the folder and write the resolved config."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_text(self.config, yaml.safe_dump(config, sort_keys=False))
            self.events.touch()
        except OSError as error:
            raise RunFolderError(
                f"run_dir '{self.path}' cannot be written: {error.strerror}"
            ) from error

    def read_config(self) -> dict[str, Any]:
        """The config of a run that is already there."""
        if not self.config.is_file():
            raise RunFolderError(f"'{self.path}' is not a run folder: it has no config.yaml")
        try:
            content = yaml.safe_load(self.config.read_text())
        except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
            raise RunFolderError(f"'{self.config}' cannot be read: {error}") from error
        if not isinstance(content, dict):
            raise RunFolderError(f"'{self.config}' is not a config: it holds no mapping")
        return content

    def write(self, result: Result) -> None:
        """Write the matrix and the results."""
        write_text(self.matrix, result.matrix.to_csv())
        write_json(self.results, result.to_json())
