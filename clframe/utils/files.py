"""Write files so that a reader never sees a partial file, even after a crash."""

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
"""Errors of a full disk."""
_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file under a temporary name; at the end, flush it to disk and rename it.

    If the block fails, the previous file stays as it was.
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
        if error.filename is None:  # A write that fails does not name the file.
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def remove_temporary(folder: Path) -> None:
    """Remove partial files of killed processes below a folder."""
    for parent, _, names in os.walk(folder):
        for name in names:
            if _TEMPORARY.fullmatch(name):
                Path(parent, name).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, so that a rename survives a loss of power."""
    with contextlib.suppress(OSError):  # Some network file systems do not support it.
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
    """Make a folder and its parents, and flush the new names to disk.

    Otherwise a loss of power could remove a folder whose files had been flushed.
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
    """Replace a file that matters only while it is new.

    A reader never sees a partial file, but nothing waits for the disk.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        temporary.write_text(content, encoding="utf-8")
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, content: str) -> None:
    """Write a text like :func:`write_bytes`."""
    write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> None:
    """Write JSON like :func:`write_bytes`; refuse NaN, which is not JSON."""
    write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")
