"""A lock that admits one process at a time to a folder."""

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
"""Seconds between two looks at a lock with a limited wait."""
_ANOTHER = "another process"
_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """Drop the lock in a forked process (a data worker): it belongs to the parent."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_leave_to_parent)


class Lock:
    """An advisory lock that the system releases when its process ends, in any way.

    So a dead process never holds the lock, and nothing has to be guessed from times or process
    numbers. On a file system without locks every process gets it.

    Args:
        path: The file that is locked; its content names the holder.
        in_use: Makes the error of :meth:`take` from the name of the process that holds the lock.
    """

    def __init__(self, path: Path, in_use: Callable[[str], ClframeError] | None = None) -> None:
        self.path = path
        # Must not hold the owner of this lock: the lock is released with its last reference.
        self._in_use = in_use
        self._descriptor: int | None = None

    def take(self) -> None:
        """Take the lock, or keep it if this object already has it.

        Raises:
            ClframeError: Another process holds it; ``in_use`` makes the error.
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
            notice: Called once if another process holds it.
            seconds: Maximum time to wait; None waits until it is free.

        Returns:
            Whether this object has the lock now.
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
        """Take the lock if the file system has locks; return False if another process holds it."""
        if self._descriptor is not None:
            return True
        if self.path.is_symlink():  # We must not write to its target.
            raise RunFolderError(f"'{self.path}' is a link and cannot be locked; remove it")
        if self.path.exists() and not self.path.is_file():  # Opening a FIFO would block.
            raise RunFolderError(f"'{self.path}' is not a file and cannot be locked; remove it")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()
        # Opened for reading only, so that the file system can still be made read-only. NFS needs
        # write access.
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
                if not self._is_there(descriptor):  # Its last holder removed it in the meantime.
                    os.close(descriptor)
                    return self._try(block)
                self._descriptor = descriptor
                _held.add(self)
                self.path.write_text(f"process {os.getpid()} on {socket.gethostname()}\n")
                break
        return True

    def _is_there(self, descriptor: int) -> bool:
        """Return whether the locked file is still the file at the path."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _holder(self) -> str:
        with contextlib.suppress(OSError):
            return read_bytes(self.path).decode(errors="replace")[:200].strip() or _ANOTHER
        return _ANOTHER

    def release(self) -> None:
        """Release the lock."""
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
