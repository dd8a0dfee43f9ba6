"""SHA-256 of files, so that damaged or changed files are never read as the original.

A *mark* records the content of a file when a run was saved: a number of bytes and their checksum.
Later additions do not matter. ``SHA256SUMS`` lists whole files, in the format of ``sha256sum -c``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clframe.errors import RunFolderError
from clframe.utils.files import write_text
from clframe.utils.regular import open_regular, read_bytes

SUMS = "SHA256SUMS"
"""The file that lists the checksums of a folder's files."""
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_CHUNK = 1 << 20
_LONGEST = 16 << 20


class PrefixSum:
    """The mark of a file that only grows; it reads no byte twice.

    Args:
        path: Path of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = 0
        self._sum = hashlib.sha256()

    def mark(self) -> dict[str, Any]:
        """Return the mark of the file's current content; empty if there is no file.

        The file is not flushed to disk: :class:`clframe.checkpoint.store.CheckpointStore` does that
        when it writes a checkpoint that has the mark.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self._bytes)
                while chunk := file.read(_CHUNK):
                    self._sum.update(chunk)
                    self._bytes += len(chunk)
        except FileNotFoundError:
            pass
        return {"bytes": self._bytes, "sha256": self._sum.hexdigest()}


def mark_of(content: bytes) -> dict[str, Any]:
    """Return the mark of a file with this content."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def check_mark(mark: Any) -> dict[str, Any]:
    """Return a mark of a saved state.

    Raises:
        ValueError: It is not a mark.
    """
    if isinstance(mark, dict):
        length, total = mark.get("bytes"), mark.get("sha256")
        if type(length) is int and length >= 0 and isinstance(total, str):
            return mark
    raise ValueError(f"{str(mark)[:40]!r} is not the length and sum of a file")


def problem_with(path: Path, mark: dict[str, Any]) -> str | None:
    """Return the problem with a file that must begin as its mark says, or None."""
    if path.is_symlink():
        return "is a link that the run has not made"
    left, total = int(mark["bytes"]), hashlib.sha256()
    if not left:
        return None
    try:
        with open_regular(path) as file:
            while left and (chunk := file.read(min(left, _CHUNK))):
                total.update(chunk)
                left -= len(chunk)
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if left:
        return f"has {int(mark['bytes']) - left} bytes, but the run had written {mark['bytes']}"
    return None if total.hexdigest() == mark["sha256"] else "is not what the run had written"


# ---------------------------------------------------------------- the checksums of a folder


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """List the checksums of a folder's existing files."""
    lines = []
    for name in names:
        path = folder / name
        if path.is_file():
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    write_text(folder / SUMS, "".join(lines))


def read_sums(folder: Path) -> dict[str, str]:
    """Return the checksums of a folder's files by name; empty if there is no list.

    Raises:
        RunFolderError: There is a list, but it cannot be read.
    """
    path = folder / SUMS
    try:
        text = read_bytes(path, _LONGEST).decode("ascii")
        lines = text.splitlines() if text.endswith("\n") else []
    except FileNotFoundError:
        if not path.is_symlink():
            return {}
        lines = []
    except (OSError, UnicodeDecodeError):
        lines = []
    matches = [_LINE.fullmatch(line) for line in lines]
    sums = {match[2]: match[1] for match in matches if match}
    if not lines or len(sums) != len(lines):
        raise RunFolderError(
            f"'{path}' is damaged; put back a copy of it, or remove it to read the folder's "
            "files unchecked"
        )
    return sums


def check_file(folder: Path, name: str, sums: dict[str, str] | None = None) -> None:
    """Refuse a file that differs from its folder's list; unlisted files pass.

    Args:
        folder: The folder with the list.
        name: The file's name in the list.
        sums: The list, if it has been read already.

    Raises:
        RunFolderError: Names the file, the list and what to do.
    """
    expected = (read_sums(folder) if sums is None else sums).get(name)
    if expected is None:
        return
    path = folder / name
    try:
        with open_regular(path) as file:
            problem = hashlib.file_digest(file, "sha256").hexdigest() != expected
            difference = f"is not what the run wrote: its checksum differs from '{folder / SUMS}'"
    except OSError as error:
        problem, difference = True, f"cannot be read ({error.strerror})"
    if problem:
        raise RunFolderError(
            f"'{path}' {difference}; put back a copy of it or, if the change is meant, remove "
            f"'{folder / SUMS}'"
        )
