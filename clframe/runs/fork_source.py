"""The state of another run that a forked run starts from.

The state is not copied: the child's ``checkpoints/`` get a hard link to the file, so both folders
can be moved, and the parent can be removed, without losing the child's first state. On file systems
without hard links it is copied, with a warning. The parent's smaller files (its events, its
lifetime log, its tables) are copied up to that state, so that the child's files describe a whole
lifetime.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clframe.checkpoint.store import CheckpointInfo, CheckpointStore, note_sum, well_formed
from clframe.errors import RunFolderError
from clframe.runs import csv_prefix
from clframe.utils import checksums
from clframe.utils.console import warn_user
from clframe.utils.files import make_folder, replacing, write_text
from clframe.utils.regular import read_json


@dataclass(frozen=True)
class Origin:
    """A state between two experiences of a run.

    Args:
        run: The folder of the run.
        sha256: Checksum of the state.
    """

    run: Path
    sha256: str

    @property
    def problem(self) -> str | None:
        """The problem with the parent, as text that follows its name, or None."""
        if not (self.run / "config.yaml").is_file():
            return f"no longer exists (state {self.sha256[:12]})"
        if self._note() is None:
            return f"no longer holds the state {self.sha256[:12]} that was taken from it"
        return None

    def give(self, store: CheckpointStore, child: Path, identity: dict[str, Any]) -> CheckpointInfo:
        """Make this state the first checkpoint of a child.

        Args:
            store: The child's checkpoints.
            child: The child's folder.
            identity: The child's identity.

        Raises:
            RunFolderError: The parent has changed.
        """
        note = self._note()
        if note is None:
            raise RunFolderError(
                f"run '{child}' cannot begin: its parent '{self.run}' {self.problem}; put it back"
            )
        for name, mark in note["files"].items():
            self._copy(name, mark, child)
        source = self.run / "checkpoints" / note["file"]
        info, linked = store.adopt(source, note, identity)
        if not linked:
            warn_user(f"'{source}' cannot be linked from '{child}' and was copied")
        return info

    def take_back(self, store: CheckpointStore, child: Path) -> None:
        """Remove the files that were given to a child that never began.

        Args:
            store: The child's checkpoints.
            child: The child's folder.
        """
        note = self._note()
        for number in store.numbers():
            store.state_file(number).unlink(missing_ok=True)
            store.note_file(number).unlink(missing_ok=True)
        paths = [] if note is None else [child / name for name in note["files"]]
        for path in paths:
            path.unlink(missing_ok=True)
        for path in (store.folder, *(parent for file in paths for parent in file.parents)):
            if path.is_relative_to(child) and path != child:
                with contextlib.suppress(OSError):  # somebody else's files are in it
                    path.rmdir()

    def _note(self) -> dict[str, Any] | None:
        """Return the parent's note of the state; None if it has no such state."""
        for note in notes(self.run):
            if note.get("sha256") == self.sha256:
                return note
        return None

    def _copy(self, name: str, mark: Mapping[str, Any], child: Path) -> None:
        """Copy the content that a file of the parent had when the state was taken."""
        source, target = self.run / name, child / name
        if not target.resolve().is_relative_to(child.resolve()):
            raise RunFolderError(f"a checkpoint of run '{self.run}' names '{name}' outside of it")
        is_table = "columns" in mark
        problem = (csv_prefix.problem_with if is_table else checksums.problem_with)(
            source, dict(mark)
        )
        if problem is not None:
            raise RunFolderError(f"run '{self.run}' cannot be forked: '{source}' {problem}")
        if not mark["rows" if is_table else "bytes"]:
            return
        make_folder(target.parent)
        if is_table:
            write_text(target, csv_prefix.first_rows(source, mark["rows"], mark["columns"]))
            return
        with source.open("rb") as file, replacing(target) as copy:
            copy.write(file.read(mark["bytes"]))


def notes(run: Path) -> Iterator[dict[str, Any]]:
    """Yield the notes of a run's existing checkpoints, the newest first."""
    store = CheckpointStore(run / "checkpoints")
    for number in store.numbers():
        newest: dict[str, Any] | None = None
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            note = read_json(store.note_file(number))
            if note.pop("note_sha256") == note_sum(note) and well_formed(note):
                newest = note
        if newest is not None:
            yield newest
