"""A run that others begin from: what it has learned, and the states it has kept of that."""

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
    """The folder of a run that is to be forked.

    Args:
        path: Where it is.

    Raises:
        RunFolderError: It is no run folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = read_content(path)
        self.finished = RunFolder(path).results.exists()

    def check_idle(self) -> None:
        """Refuse a run that is being learned: its end is not known yet.

        Raises:
            RunFolderError: With the process that learns it.
        """
        place = self.path / ".lock"
        if not place.exists():
            return
        lock = Lock(
            place,
            lambda holder: RunFolderError(
                f"run '{self.path}' is being learned by {holder}; fork it when that has ended"
            ),
        )
        with contextlib.suppress(OSError):  # a folder that cannot be written is learned by nobody
            lock.take()
        lock.release()

    @cached_property
    def kept(self) -> dict[int, dict[str, Any]]:
        """What is noted of the states between two experiences, by how many had been learned."""
        found: dict[int, dict[str, Any]] = {}
        for note in notes(self.path):
            learned = note["position"].get("experiences_learned")
            if learned is not None and note["position"]["rows"] > learned:
                found.setdefault(learned, note)
        return found

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
        """How many experiences had been learned with the one of this name or number.

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
                f"run '{self.path}' has learned {len(self.names)} experiences; there is none of "
                f"number {number}"
            )
        return number

    def ended_with(self, learned: int) -> bool:
        """Whether its last experience is meant, and a method that others would go on with."""
        return self.finished and learned == len(self.names) and bool(self.content["strategy"])

    def state_after(self, learned: int) -> dict[str, Any]:
        """What is noted of the state after so many experiences.

        Raises:
            RunFolderError: It has not kept that state.
        """
        if learned in self.kept:
            return self.kept[learned]
        origin = self.content.get("fork")
        if origin is not None and learned < origin["at"]:
            raise RunFolderError(
                f"run '{self.path}' began after {origin['at']} experiences of '{origin['run']}': "
                f"fork that one at {learned}"
            )
        there = ", ".join(map(str, sorted(self.kept))) or "none"
        raise RunFolderError(
            f"run '{self.path}' has not kept its state after {learned} experiences (it has those "
            f"after: {there}); {KEEP_ALL}"
        )
