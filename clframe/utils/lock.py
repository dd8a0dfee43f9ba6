"""One process at a time in a folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from clframe.errors import ClframeError, RunFolderError
from clframe.utils.regular import read_bytes

_LOOK = 0.2
"""Seconds between two looks at a lock that is waited for so long and no longer."""
_ANOTHER = "another process"
_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """In a forked process (one that reads data): the lock is the parent's, and ends with it."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_leave_to_parent)


class Lock:
    """An advisory lock that the system lets go when its process ends, however it ends.

    So a lock of a dead process is never in the way, and nothing has to be guessed from times or
    process numbers. On a file system without locks everybody gets it.

    Args:
        path: The file that is locked; it says which process holds it.
        in_use: The error of :meth:`take` while another process holds it, given which one.
    """

    def __init__(self, path: Path, in_use: Callable[[str], ClframeError] | None = None) -> None:
        self.path = path
        # Must not hold whoever holds this lock: the lock falls with its last reference.
        self._in_use = in_use
        self._descriptor: int | None = None

    def take(self) -> None:
        """Take the lock, or keep it if this object has it already.

        Raises:
            ClframeError: Another process holds it; which error is said by ``in_use``.
        """
        if self._try():
            return
        holder = self._holder()
        if self._in_use is not None:
            raise self._in_use(holder)
        raise RunFolderError(f"'{self.path}' is locked by {holder}; wait for it to end")

    def wait(self, notice: Callable[[], None] | None = None, seconds: float | None = None) -> bool:
        """Take the lock as soon as no other process holds it.

        Args:
            notice: Called once if it is to be waited for.
            seconds: How long to wait at most; None waits until it is free.

        Returns:
            Whether this object has it now.
        """
        if self._try():
            return True
        if notice is not None:
            notice()
        if seconds is None:
            return self._try(block=True)
        until = time.monotonic() + seconds
        while not (taken := self._try()) and time.monotonic() < until:
            time.sleep(_LOOK)
        return taken

    def _try(self, block: bool = False) -> bool:
        """Take the lock where the file system has locks; False if another process holds it."""
        if self._descriptor is not None:
            return True
        if self.path.is_symlink():  # what it leads to is not ours to write to
            raise RunFolderError(f"'{self.path}' is a link and cannot be locked; remove it")
        if self.path.exists() and not self.path.is_file():  # to open a FIFO would wait
            raise RunFolderError(f"'{self.path}' is no file and cannot be locked; remove it")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()
        # Opened for reading only, so that the file system can still be made read-only. NFS asks
        # for more.
        for mode in (os.O_RDONLY, os.O_RDWR):
            descriptor = os.open(self.path, mode)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if block else fcntl.LOCK_NB))
            except OSError as error:
                os.close(descriptor)
                if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                    return False
                if error.errno != errno.EBADF:
                    break
            else:
                if not self._is_there(descriptor):  # removed by its last holder meanwhile
                    os.close(descriptor)
                    return self._try(block)
                self._descriptor = descriptor
                _held.add(self)
                self.path.write_text(f"process {os.getpid()} on {socket.gethostname()}\n")
                break
        return True

    def _is_there(self, descriptor: int) -> bool:
        """Whether what was locked is still the file that the next one will look at."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _holder(self) -> str:
        with contextlib.suppress(OSError):
            return read_bytes(self.path).decode(errors="replace")[:200].strip() or _ANOTHER
        return _ANOTHER

    def release(self) -> None:
        """Let others in."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _held.discard(self)

    def __enter__(self) -> Lock:
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.release()
