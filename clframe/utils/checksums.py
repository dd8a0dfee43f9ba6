"""SHA-256 of files: what was damaged or changed is never read as if it were what was written.

A *mark* says what a file held when a run was saved: so many bytes with this sum. What was added
later does not matter. ``SHA256SUMS`` lists whole files, in the form that ``sha256sum -c`` reads.
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
"""The file that lists the sums of a folder's files."""
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_CHUNK = 1 << 20
_LONGEST = 16 << 20


class PrefixSum:
    """The mark of a file that only grows, without reading any part of it twice.

    Args:
        path: Where it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = 0
        self._sum = hashlib.sha256()

    def mark(self) -> dict[str, Any]:
        """What the file holds now; nothing if there is none.

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
    """The mark of a file with this content."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def check_mark(mark: Any) -> dict[str, Any]:
    """Return a mark of a saved state.

    Raises:
        ValueError: It is something else.
    """
    if isinstance(mark, dict):
        length, total = mark.get("bytes"), mark.get("sha256")
        if type(length) is int and length >= 0 and isinstance(total, str):
            return mark
    raise ValueError(f"{str(mark)[:40]!r} is not the length and sum of a file")


def problem_with(path: Path, mark: dict[str, Any]) -> str | None:
    """What is wrong with a file that should begin as its mark says; None for nothing."""
    if path.is_symlink():
        return "is a link, which the run had not made"
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


# ---------------------------------------------------------------- the sums of a folder


def write_sums(folder: Path, names: Iterable[str]) -> None:
    """List the sums of a folder's files, of those that are there."""
    lines = []
    for name in names:
        path = folder / name
        if path.is_file():
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    write_text(folder / SUMS, "".join(lines))


def read_sums(folder: Path) -> dict[str, str]:
    """The sums of a folder's files by name; none where they are not listed.

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
    found = {match[2]: match[1] for match in matches if match}
    if not lines or len(found) != len(lines):
        raise RunFolderError(
            f"'{path}' is damaged; put back a copy of it, or remove it to read the files beside "
            "it unchecked"
        )
    return found


def check_file(folder: Path, name: str, sums: dict[str, str] | None = None) -> None:
    """Refuse a file that is not what its folder's list says; others may be anything.

    Args:
        folder: The folder with the list.
        name: The file's place in it.
        sums: The list, where it has been read already.

    Raises:
        RunFolderError: With the file, the list and what to do.
    """
    expected = (read_sums(folder) if sums is None else sums).get(name)
    if expected is None:
        return
    path = folder / name
    try:
        with open_regular(path) as file:
            problem = hashlib.file_digest(file, "sha256").hexdigest() != expected
            words = f"is not what the run wrote: its sum is another than '{folder / SUMS}' lists"
    except OSError as error:
        problem, words = True, f"cannot be read ({error.strerror})"
    if problem:
        raise RunFolderError(
            f"'{path}' {words}; put back a copy of it or, if the change is meant, remove "
            f"'{folder / SUMS}'"
        )
