"""The numbered checkpoints of a run on disk: written atomically, checked, read without code.

``checkpoints/000007.pt`` holds the state: torch's zip file with only tensors and plain values.
``000007.json`` holds its position in the run, its dependencies and the file's SHA-256. The JSON is
moved into place first, so a visible state always has its checksum. Nothing is deleted before the
next checkpoint is complete. The last two usable checkpoints are kept, with their dependencies. The
states between two experiences are kept while there is room.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import re
import shutil
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch

from clframe.errors import RunFolderError
from clframe.utils.console import warn_user
from clframe.utils.files import make_folder, replacing, sync_file, sync_folder, write_json
from clframe.utils.regular import open_regular, read_json

FORMAT = 5
_NUMBERED = re.compile(r"(\d{6,})\.pt")
_BETWEEN = ("experiences_learned", "rows", "tasks_evaluated")
_WITHIN = ("loop", "epoch", "step", "done")
_ODD = (ValueError, TypeError, AttributeError, AssertionError, RecursionError, MemoryError)


@dataclass(frozen=True)
class CheckpointInfo:
    """A position in a run from which it can continue.

    Args:
        number: Number in the names of its files.
        position: Position in the run, for people and for the checkpointer.
        parents: Numbers of the checkpoints it depends on, in the order in which they are restored.
        identity: The run's identity when it was saved.
        files: Marks of the append-only files in the run folder.
    """

    number: int
    position: dict[str, Any]
    parents: list[int] = field(default_factory=list)
    identity: dict[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def learned(self) -> int | None:
        """The number of experiences learned, if it was taken between two of them."""
        learned: int | None = self.position.get("experiences_learned")
        return learned

    @property
    def between(self) -> bool:
        """Whether it is the start of the run or the end of an experience with its whole row."""
        return self.learned is not None and self.position["rows"] > self.learned


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        folder: Folder of the checkpoints; made with the first one.
        keep: How many to keep, in addition to their dependencies.
        room: Bytes that kept states between two experiences may take.
    """

    def __init__(self, folder: Path, keep: int = 2, room: float = 0) -> None:
        self.folder = folder
        self.keep, self.room = keep, room
        self.full = False
        """Whether a state between two experiences did not fit into the room."""
        self._infos: dict[int, CheckpointInfo] = {}
        self._flushed: set[str] = set()
        """Files of the run that have been flushed to disk, including their folder entries."""

    def numbers(self) -> list[int]:
        """Return all numbers, the newest first, including those of unreadable checkpoints."""
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        return sorted((int(m[1]) for m in map(_NUMBERED.fullmatch, names) if m), reverse=True)

    def state_file(self, number: int) -> Path:
        """Return the path of a checkpoint's state."""
        return self.folder / f"{number:06d}.pt"

    def note_file(self, number: int) -> Path:
        """Return the path of a checkpoint's note, its JSON file."""
        return self.folder / f"{number:06d}.json"

    # ------------------------------------------------------------ writing

    def write(
        self,
        state: dict[str, Any],
        position: dict[str, Any],
        parents: Sequence[int] = (),
        identity: dict[str, Any] | None = None,
        files: dict[str, dict[str, Any]] | None = None,
    ) -> int:
        """Add a checkpoint, delete those that are no longer needed, and return its number."""
        make_folder(self.folder)
        self._flush(files or {})
        number = max(self.numbers(), default=0) + 1
        info = CheckpointInfo(number, position, list(parents), identity or {}, files or {})
        with replacing(self.state_file(number)) as file:
            summed = _Summed(file)
            torch.save(state, cast(IO[bytes], summed))
            if summed.error is not None:
                raise summed.error
            self._write_note(info, summed.bytes, summed.sum.hexdigest())
        self._infos[number] = info
        self._prune()
        return number

    def adopt(
        self, source: Path, note: dict[str, Any], identity: dict[str, Any]
    ) -> tuple[CheckpointInfo, bool]:
        """Adopt a checkpoint of another run as the first one; return whether it was hard-linked.

        Args:
            source: Path of the state.
            note: The other run's note of it.
            identity: The identity of this run.
        """
        make_folder(self.folder)
        info = CheckpointInfo(1, note["position"], [], identity, note["files"])
        target, linked = self.state_file(info.number), True
        self._write_note(info, note["bytes"], note["sha256"])
        try:
            os.link(source, target)
        except OSError:  # another file system, or one without hard links
            linked = False
            with source.open("rb") as file, replacing(target) as copy:
                shutil.copyfileobj(file, copy)
        problem = self._inspect(info.number)
        if problem is not None:
            raise RunFolderError(f"checkpoint '{source}' cannot be used: {problem}")
        return info, linked

    def _flush(self, files: Iterable[str]) -> None:
        """Flush files of the run folder to disk, with their folder entries."""
        run = self.folder.parent
        for name in files:
            if sync_file(run / name) and name not in self._flushed:
                for parent in Path(name).parents:
                    sync_folder(run / parent)
                self._flushed.add(name)

    def _write_note(self, info: CheckpointInfo, size: int, checksum: str) -> None:
        """Write the note of a checkpoint."""
        note = {
            "format": FORMAT,
            "file": self.state_file(info.number).name,
            "bytes": size,
            "sha256": checksum,
            "position": info.position,
            "parents": info.parents,
            "identity": info.identity,
            "files": info.files,
        }
        note = json.loads(json.dumps(note))  # The checksum is of the note as a reader gets it.
        write_json(self.note_file(info.number), note | {"note_sha256": note_sum(note)})

    def _prune(self) -> None:
        newest = sorted(self._infos, reverse=True)[: self.keep]
        kept = {*newest, *(parent for number in newest for parent in self._infos[number].parents)}
        kept |= self._between_kept()
        for number in self.numbers():
            if number not in kept:
                self.state_file(number).unlink(missing_ok=True)
                self.note_file(number).unlink(missing_ok=True)
                self._infos.pop(number, None)

    def _between_kept(self) -> set[int]:
        """Return the first states between two experiences that fit into the room."""
        kept: set[int] = set()
        if not self.room:
            return kept
        left = self.room
        for number in sorted(number for number, info in self._infos.items() if info.between):
            with contextlib.suppress(FileNotFoundError):  # Somebody removed it in the meantime.
                left -= self.state_file(number).stat().st_size
            if left < 0:
                self.full = True
                break
            kept.add(number)
        return kept

    def tidy(self) -> None:
        """Remove incomplete files of a killed process."""
        for path in self.folder.glob(".*.tmp"):
            path.unlink(missing_ok=True)
        present = {self.note_file(number) for number in self.numbers()}
        for path in self.folder.glob("*.json"):
            if path not in present:
                path.unlink(missing_ok=True)

    # ------------------------------------------------------------ reading

    def newest(self, final: bool = False) -> CheckpointInfo | None:
        """Return the last checkpoint that is intact with its dependencies; None if there are none.

        Args:
            final: Accept only the newest: the run has finished, and only this one holds its end.

        Raises:
            RunFolderError: There are checkpoints, but none of them can be used.
        """
        problems: dict[int, str] = {}
        chosen: CheckpointInfo | None = None
        # A state that is gone has left its note behind.
        notes = {int(path.stem) for path in self.folder.glob("*.json") if path.stem.isdecimal()}
        numbers = sorted({*self.numbers(), *notes}, reverse=True) if final else self.numbers()
        for number in numbers:
            problem = self._inspect(number)
            if problem is None:
                info = self._infos[number]
                broken = [n for n in info.parents if self._inspect(n) is not None]
                if not broken:
                    chosen = info
                    break
                problem = f"it depends on '{self.state_file(broken[0]).name}', which cannot be read"
                self._infos.pop(number)
            problems[number] = problem
        for number, problem in problems.items():
            name = f"checkpoint '{self.state_file(number)}' cannot be used: {problem}"
            if final:
                raise RunFolderError(
                    f"{name}; it holds the end of the run, which resume={self.folder.parent} "
                    "learns again"
                )
            if chosen is None:
                raise RunFolderError(f"{name}; there is none before it to continue from")
            warn_user(f"{name}; continuing from the one before it")
        # Older checkpoints stay registered, so they are kept until there are newer ones.
        for number in self.numbers():
            if chosen is not None and number < chosen.number and number not in self._infos:
                self._inspect(number)
        return chosen

    def problems(self) -> dict[int, str]:
        """Return the problem with each checkpoint that cannot be used."""
        problems = {number: self._inspect(number) for number in self.numbers()}
        return {number: problem for number, problem in problems.items() if problem is not None}

    def usable(self) -> list[CheckpointInfo]:
        """Return checkpoints known to be intact, the newest first; :meth:`newest` checks all."""
        return [self._infos[number] for number in sorted(self._infos, reverse=True)]

    def _inspect(self, number: int) -> str | None:
        """Check a checkpoint and register it; return its problem, if any."""
        if number in self._infos:
            return None
        try:
            note = read_json(self.note_file(number))
            expected, size = str(note["sha256"]), int(note["bytes"])
            if note["format"] != FORMAT:
                return f"it has format {note['format']}, this version of clframe reads {FORMAT}"
            if note.pop("note_sha256") != note_sum(note):
                return f"its '{self.note_file(number).name}' is damaged"
            if not well_formed(note):
                return f"its '{self.note_file(number).name}' was not written by clframe"
            info = CheckpointInfo(
                number, note["position"], note["parents"], note["identity"], note["files"]
            )
        except FileNotFoundError:
            return f"its '{self.note_file(number).name}' is missing"
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return f"its '{self.note_file(number).name}' is damaged"
        try:
            with open_regular(self.state_file(number)) as file:
                length, checksum = os.fstat(file.fileno()).st_size, ""
                if length == size:
                    checksum = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            return f"it cannot be read ({error.strerror})"
        if length != size:
            return f"it is damaged ({length} bytes instead of {size})"
        if checksum != expected:
            return "it is damaged (its checksum differs from the saved one)"
        self._infos[number] = info
        return None

    def read(self, number: int, device: torch.device) -> dict[str, Any]:
        """Return the state of a checkpoint; refuse objects other than tensors and plain values."""
        path = self.state_file(number)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch warns of old formats before refusing them.
                state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
        except pickle.UnpicklingError as error:
            raise RunFolderError(
                f"checkpoint '{path}' holds more than tensors and plain values and was not loaded"
            ) from error
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, EOFError, OSError, LookupError, *_ODD) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise RunFolderError(f"checkpoint '{path}' is damaged: {reason}") from error
        if not isinstance(state, dict):
            raise RunFolderError(f"checkpoint '{path}' holds no state of a run")
        return state


def well_formed(note: dict[str, Any]) -> bool:
    """Return whether a note has entries of the types that clframe writes."""
    position, parents, files = note["position"], note["parents"], note["files"]
    keys = _BETWEEN if "experiences_learned" in position else _WITHIN
    return (
        all(type(position[key]) in (int, bool) for key in keys)
        and isinstance(note["identity"], dict)
        and all(type(number) is int for number in parents)
        and all(isinstance(mark, dict) and _is_mark(mark) for mark in files.values())
        and isinstance(note.get("file", ""), str)
    )


def _is_mark(mark: dict[str, Any]) -> bool:
    """Return whether this is the mark of a file: its bytes, or rows of columns, with a checksum."""
    counted = mark["rows"] if "columns" in mark else mark["bytes"]
    return type(counted) is int and counted >= 0 and isinstance(mark["sha256"], str)


def note_sum(note: dict[str, Any]) -> str:
    """Return the checksum that a note holds of its other entries, in any layout."""
    return hashlib.sha256(json.dumps(note, sort_keys=True).encode()).hexdigest()


class _Summed:
    """A file that computes a checksum of its content.

    A failure is kept for later, because torch would replace it with an error that explains nothing.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.sum = hashlib.sha256()
        self.bytes = 0
        self.error: OSError | None = None

    def write(self, content: Any) -> int:
        view = memoryview(content).cast("B")
        self.sum.update(view)
        self.bytes += len(view)
        if self.error is None:
            try:
                self.file.write(view)
            except OSError as error:
                self.error = error
        return len(view)

    def flush(self) -> None:
        """Do nothing: the file is flushed to disk at the end."""
