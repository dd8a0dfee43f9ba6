"""A run to fork: its experiences and the states that it has kept."""

from __future__ import annotations

import contextlib
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from clframe.checkpoint.settings import KEEP_ALL
from clframe.checkpoint.store import CheckpointStore
from clframe.config.read_config import read_content
from clframe.core.matrix import BEFORE
from clframe.core.results import Result
from clframe.errors import RunFolderError, SettingError, nearest
from clframe.runs.folder import RunFolder
from clframe.runs.fork_source import notes
from clframe.utils.lock import Lock


class Parent:
    """The folder of a run to fork.

    Args:
        path: Path of the folder.

    Raises:
        RunFolderError: It is not a run folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = read_content(path)
        self.finished = RunFolder(path).results.exists()

    def check_idle(self) -> None:
        """Refuse a run that is still being trained: its end is not known yet.

        Raises:
            RunFolderError: Names the process that trains it.
        """
        path = self.path / ".lock"
        if not path.exists():
            return
        lock = Lock(
            path,
            lambda holder: RunFolderError(
                f"run '{self.path}' is being trained by {holder}; fork it when that has ended"
            ),
        )
        with contextlib.suppress(OSError):  # Nobody trains in a folder that cannot be written.
            lock.take()
        lock.release()

    @cached_property
    def kept(self) -> dict[int, dict[str, Any]]:
        """The notes of states between two experiences, by number of learned experiences."""
        states: dict[int, dict[str, Any]] = {}
        for note in notes(self.path):
            learned = note["position"].get("experiences_learned")
            if learned is not None and note["position"]["rows"] > learned:
                states.setdefault(learned, note)
        return states

    @cached_property
    def names(self) -> list[str]:
        """The experiences that it has learned, in order."""
        if self.finished:
            return Result.load(self.path).matrix.rows[1:]
        if not self.kept:
            return []
        store = CheckpointStore(self.path / "checkpoints")
        number = int(Path(self.kept[max(self.kept)]["file"]).stem)
        rows: list[str] = store.read(number, torch.device("cpu"))["matrix"]["rows"]
        return rows[1:]

    def learned(self, at: str | int) -> int:
        """Return how many experiences were learned up to the one of this name or number.

        Raises:
            SettingError: It has learned no such experience.
        """
        if at == BEFORE:
            return 0
        if isinstance(at, str) and not at.isdecimal():
            if at not in self.names:
                raise SettingError(
                    f"run '{self.path}' has learned no experience '{at}'; {nearest(at, self.names)}"
                )
            return self.names.index(at) + 1
        number = int(at)
        if not 0 <= number <= len(self.names):
            raise SettingError(
                f"run '{self.path}' has learned {len(self.names)} experiences; there is no "
                f"number {number}"
            )
        return number

    def ended_with(self, learned: int) -> bool:
        """Return whether this is its last experience and a method would prepare for the next."""
        return self.finished and learned == len(self.names) and bool(self.content["strategy"])

    def state_after(self, learned: int) -> dict[str, Any]:
        """Return the note of the state after this number of experiences.

        Raises:
            RunFolderError: It has not kept that state.
        """
        if learned in self.kept:
            return self.kept[learned]
        origin = self.content.get("fork")
        if origin is not None and learned < origin["at"]:
            raise RunFolderError(
                f"run '{self.path}' started after {origin['at']} experiences of '{origin['run']}': "
                f"fork that run at {learned}"
            )
        there = ", ".join(map(str, sorted(self.kept))) or "none"
        raise RunFolderError(
            f"run '{self.path}' has not kept its state after {learned} experiences (it has those "
            f"after: {there}); {KEEP_ALL}"
        )
