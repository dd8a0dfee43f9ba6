"""The memory-mapped cache of one plan: one ``.npy`` per array, one small record per section.

Layout of a cache folder: ``plan.json``, ``rgb.npy`` (and ``depth.npy``, ``mask.npy``, ``box.npy``)
of the plan's full length, and ``sections/<group>-<number>.json`` for each section that is complete,
with the checksum of its rows. The files are sparse: rows that were never filled take no room. A
section counts only through its record, which is written last, so that a build that is killed loses
the sections it was working on and nothing else. Builders write the same bytes to the same rows, so
that two of them cannot spoil each other's work; a lock makes the second one wait instead.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.utils.console import warn_user
from clframe.utils.files import remove_temporary, write_json
from clframe.utils.lock import Lock
from clframe.worlds.objects.frames.cache_plan import Bad, Plan, Section

_FORMAT = 1


class Cache:
    """The cache folder of a plan; nothing is made before :meth:`create`.

    Args:
        folder: Where it is.
        plan: What it holds.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder = folder
        self.plan = plan
        self._checked: set[str] = set()
        self._reported: set[str] = set()

    # ------------------------------------------------------------ making

    def create(self) -> None:
        """Make folder and files that are not there; called while locked.

        Raises:
            DataError: The folder cannot be written.
        """
        content = {
            "format": _FORMAT,
            "rows": len(self.plan),
            "arrays": {name: [kind, *shape] for name, (kind, shape) in self.plan.arrays.items()},
        }
        try:
            remove_temporary(self.folder)
            stored = self._read(self.folder / "plan.json")
            if not isinstance(stored, dict) or {**stored, **content} != stored:
                self.forget(list(self.plan.sections.values()))
                write_json(self.folder / "plan.json", {**content, "content": self.plan.words})
            for name in self.plan.arrays:
                if self._array(name) is None:
                    self.forget(list(self.plan.sections.values()))
                    self._create_array(name)
        except OSError as error:
            raise DataError(
                f"the cache folder '{self.folder}' cannot be written ({error}); choose another "
                "with data_dir="
            ) from error

    def _create_array(self, name: str) -> None:
        """Write header and length, and no rows."""
        kind, shape = self.plan.arrays[name]
        path = self.folder / f"{name}.npy"
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        header = {"descr": kind, "fortran_order": False, "shape": (len(self.plan), *shape)}
        try:
            with temporary.open("wb") as file:
                np.lib.format.write_array_header_1_0(file, header)
                row = np.dtype(kind).itemsize * int(np.prod(shape))
                file.truncate(file.tell() + row * len(self.plan))
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)

    def finish(self, section: Section, bad: Bad) -> None:
        """Record that all rows of a section are written.

        Raises:
            DataError: The record cannot be written.
        """
        sums = {name: self._sum(name, section) for name in self.plan.arrays}
        record = {"crc32": sums, "bad": [list(entry) for entry in bad]}
        try:
            write_json(self._record(section), record)
        except OSError as error:
            raise DataError(
                f"the cache '{self._record(section)}' cannot be written: {error.strerror}"
            ) from error
        self._checked.add(section.name)

    def forget(self, sections: Sequence[Section]) -> None:
        """Take the records of these sections away, so that they are made again."""
        for section in sections:
            self._record(section).unlink(missing_ok=True)
            self._checked.discard(section.name)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock, waiting for another process that builds the same.

        The lock is the system's own and ends with its process, killed or not. Without locks
        (some network drives), two builders do the same work twice, without harm.
        """
        lock = Lock(self.folder / ".lock")
        waiting = f"waiting for another process that is {self.plan.verb} the same images"
        try:
            (self.folder / "sections").mkdir(parents=True, exist_ok=True)
            lock.wait(lambda: warn_user(waiting))
        except OSError as error:
            raise DataError(
                f"the cache folder '{self.folder}' cannot be made ({error}); choose another with "
                "data_dir="
            ) from error
        with lock:
            yield

    # ------------------------------------------------------------ reading

    def unfinished(self, sections: Sequence[Section], retry_bad: bool) -> list[Section]:
        """The sections that are still to be made, damaged ones included.

        Args:
            sections: The requested sections.
            retry_bad: Count sections with images that could not be read as unfinished.
        """
        todo = []
        for section in sections:
            record = self._read(self._record(section))
            if not isinstance(record, dict) or (retry_bad and record.get("bad")):
                todo.append(section)
            elif section.name not in self._checked:
                wrong = [n for n in self.plan.arrays if self._damaged(n, section, record)]
                if not wrong:
                    self._checked.add(section.name)
                    continue
                todo.append(section)
                if section.name not in self._reported:
                    self._reported.add(section.name)
                    warn_user(
                        f"cached {section.name} ({', '.join(wrong)}) in '{self.folder}' does not "
                        "match its checksum and is made again"
                    )
        return todo

    def bad(self, section: Section) -> Bad:
        """The rows of a finished section that hold no image, and why."""
        record = self._read(self._record(section))
        return [(int(row), str(why)) for row, why in record["bad"]]

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Some rows of an array, mapped: read from disk as they are used.

        The map is private and writable, which torch asks for; nothing is ever written to it.
        """
        array: NDArray[Any] = np.load(self.folder / f"{name}.npy", "c", allow_pickle=False)
        return array[start:stop]

    def _record(self, section: Section) -> Path:
        return self.folder / "sections" / f"{section.name}.json"

    def _read(self, path: Path) -> Any:
        try:
            return json.loads(path.read_text())
        except (OSError, ValueError):
            return None

    def _array(self, name: str) -> NDArray[Any] | None:
        """The mapped array, or None if it is not there or something else."""
        kind, shape = self.plan.arrays[name]
        try:
            array: NDArray[Any] = np.load(self.folder / f"{name}.npy", "r", allow_pickle=False)
        except (OSError, ValueError):
            return None
        fits = array.dtype == np.dtype(kind) and array.shape == (len(self.plan), *shape)
        return array if fits else None

    def _sum(self, name: str, section: Section) -> int | None:
        array = self._array(name)
        return None if array is None else zlib.crc32(array[section.start : section.stop].data)

    def _damaged(self, name: str, section: Section, record: dict[str, Any]) -> bool:
        recorded = record.get("crc32", {}).get(name)
        return recorded is None or recorded != self._sum(name, section)
