"""Read untrusted files: regular files only, with a bounded size."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

LARGEST = 256 << 20
"""Maximum bytes of a text file that is read at once."""


_LARGE, _SPARSE = 1 << 30, 1000
"""Above the first size, at least the second share of a file's bytes must be on disk."""


def open_regular(path: str | Path) -> io.BufferedReader:
    """Open a regular file for reading; a FIFO, a socket or a device could block or act.

    Raises:
        OSError: There is no such file, it is not a regular one, or its content is nearly all holes
            (a small archive can unpack to such a file).
    """
    _check(os.stat(path).st_mode, path)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    file = open(descriptor, "rb")  # noqa: SIM115
    try:
        status = os.fstat(file.fileno())
        _check(status.st_mode, path)
        blocks = getattr(status, "st_blocks", status.st_size)
        if status.st_size > _LARGE and blocks * 512 * _SPARSE < status.st_size:
            raise OSError(errno.EINVAL, f"it is a sparse file of {status.st_size:,} bytes")
    except BaseException:
        file.close()
        raise
    return file


def _check(mode: int, path: str | Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


def read_bytes(path: str | Path, limit: int = LARGEST) -> bytes:
    """Return the content of a file of at most ``limit`` bytes.

    Raises:
        OSError: It cannot be read, is not a regular file, or is larger.
    """
    with open_regular(path) as file:
        content = b"" if os.fstat(file.fileno()).st_size > limit else file.read(limit + 1)
        if len(content) > limit or os.fstat(file.fileno()).st_size > limit:
            size = os.fstat(file.fileno()).st_size
            raise OSError(errno.EINVAL, f"it has {size:,} bytes, but at most {limit:,} are read")
    return content


def read_text(path: str | Path, limit: int = LARGEST) -> str:
    """Return the content of a UTF-8 file of at most ``limit`` bytes.

    Raises:
        OSError: It cannot be read, is not a regular file, or is larger.
        UnicodeDecodeError: It is not UTF-8.
    """
    # Newlines are translated as by open() in text mode.
    return read_bytes(path, limit).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def parse_json(text: str, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """Return the content of a JSON text.

    Raises:
        ValueError: It is not JSON, is nested too deeply, or holds a number of thousands of digits.
    """
    try:
        return json.loads(text, parse_constant=parse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: str | Path, limit: int = LARGEST) -> Any:
    """Return the content of a JSON file.

    Raises:
        OSError: It cannot be read, is not a regular file, or is larger.
        ValueError: It is not UTF-8 or not JSON.
    """
    return parse_json(read_text(path, limit))
