"""``sweep.json``: the runs of a sweep folder and their states."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clframe.errors import RunFolderError
from clframe.report.sweeps import SWEEP
from clframe.sweep.expand import Plan
from clframe.sweep.job import Job
from clframe.utils.files import write_json
from clframe.utils.lock import Lock

SCHEMA = 1


class Manifest:
    """The record of a sweep, rewritten whenever a run changes its state.

    Args:
        folder: The sweep folder.
        plan: The current sweep.
        plugins: Checksum of the user's plugin files.

    Raises:
        RunFolderError: The folder holds something else, or a sweep with other settings.
    """

    def __init__(self, folder: Path, plan: Plan, plugins: str) -> None:
        self.path = folder / SWEEP
        self.content: dict[str, Any] = {
            "schema": SCHEMA,
            "fixed": sorted(plan.fixed),
            "keys": list(plan.axes),
            "plugins": plugins,
            "runs": {},
        }
        before = _read(folder)
        if before is None:
            return
        for name, preposition in (("fixed", "with"), ("keys", "over")):
            if sorted(before[name]) != sorted(self.content[name]):
                old = " ".join(before[name]) or "no common settings"
                raise RunFolderError(
                    f"sweep_dir '{folder}' holds a sweep {preposition} {old}, not "
                    f"{' '.join(self.content[name]) or 'without any'}; give another sweep_dir"
                )
        if before["plugins"] != plugins:
            raise RunFolderError(
                f"sweep_dir '{folder}' holds runs of another version of the files in plugin_path; "
                "give another sweep_dir"
            )
        self.content["keys"] = before["keys"]
        self.content["runs"] = before["runs"]

    def add(self, jobs: Sequence[Job]) -> None:
        """Record new runs; keep the entries of known ones."""
        for job in jobs:
            entry = self.content["runs"].setdefault(job.name, {"overrides": list(job.overrides)})
            state = job.state
            entry["state"] = state if state == "finished" else "waiting"
            entry["log"] = job.log.relative_to(self.path.parent.resolve()).as_posix()
            if state == "finished":
                entry.pop("why", None)
        self._write()

    def note(self, job: Job, state: str, why: str | None = None) -> None:
        """Record the state of one run: running, finished, failed or stopped."""
        entry = self.content["runs"][job.name]
        entry["state"] = state
        entry.pop("why", None)
        if why is not None:
            entry["why"] = why
        self._write()

    def _write(self) -> None:
        try:
            write_json(self.path, self.content)
        except OSError as error:
            raise RunFolderError(f"'{self.path}' cannot be written: {error.strerror}") from error


def _read(folder: Path) -> dict[str, Any] | None:
    """Return the record in a folder; None if the folder is new or empty."""
    path = folder / SWEEP
    if folder.exists() and not folder.is_dir():
        raise RunFolderError(f"sweep_dir '{folder}' is a file; give a folder")
    if not path.exists():
        if folder.is_dir() and any(name != ".lock" for name in os.listdir(folder)):
            raise RunFolderError(
                f"sweep_dir '{folder}' is not empty and holds no sweep; give a new folder"
            )
        return None
    try:
        content = json.loads(path.read_text())
        whole = content["schema"] == SCHEMA and all(
            isinstance(content[name], kind)
            for name, kind in (("fixed", list), ("keys", list), ("plugins", str), ("runs", dict))
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"'{path}' cannot be read as the record of a sweep") from error
    if not whole:
        raise RunFolderError(f"'{path}' is not the record of a sweep of this version of clframe")
    return dict(content)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Make the folder and keep other sweeps out of it."""
    lock = Lock(
        folder / ".lock",
        lambda holder: RunFolderError(
            f"sweep_dir '{folder}' is in use by another clframe fit -m; wait for it to end, or "
            "give another sweep_dir"
        ),
    )
    try:
        lock.take()
    except OSError as error:
        raise RunFolderError(f"sweep_dir '{folder}' cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()
