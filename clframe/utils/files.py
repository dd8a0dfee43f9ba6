"""Writing files so that a reader never sees half of one, not even after a crash."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says where there is no room for more."""
_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to under a temporary name; flushed to disk and renamed at the end.

    When the block fails, what was there before stays as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        if error.filename is None:  # a write that fails does not say of which file
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def remove_temporary(folder: Path) -> None:
    """Remove what processes that were killed had begun to write below a folder."""
    for parent, _, names in os.walk(folder):
        for name in names:
            if _TEMPORARY.fullmatch(name):
                Path(parent, name).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, so that a rename survives a loss of power."""
    with contextlib.suppress(OSError):  # some network file systems do not offer it
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_file(path: Path) -> bool:
    """Flush a file's content to disk; return whether the file exists."""
    try:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    except FileNotFoundError:
        return False
    return True


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, and flush the new names to disk.

    Otherwise a loss of power could take away a folder whose files had been flushed.
    """
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in reversed(new):
        sync_folder(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Write under a temporary name in the same folder, flush to disk, then rename."""
    with replacing(path) as file:
        file.write(content)


def write_volatile(path: Path, content: str) -> None:
    """Replace a file that is only worth something while it is new.

    A reader never sees half of it, but nothing waits for the disk.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        temporary.write_text(content, encoding="utf-8")
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, content: str) -> None:
    """The same for text."""
    write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> None:
    """The same for JSON; NaN is refused, since it is not JSON."""
    write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")
