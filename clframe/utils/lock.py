"""One process at a time in a run folder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import weakref
from pathlib import Path

from clframe.errors import RunFolderError

_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """In a forked process (one that reads data): the lock is the parent's, and ends with it."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_leave_to_parent)


class Lock:
    """An advisory lock that the system lets go when its process ends, however it ends.

    So a lock of a dead process is never in the way, and nothing has to be guessed from times or
    process numbers.

    Args:
        path: The file that is locked; it says which process holds it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def take(self) -> None:
        """Take the lock, or keep it if it is held already by this object.

        Raises:
            RunFolderError: Another process holds it.
        """
        if self._descriptor is not None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Held open for reading only, so that the file system can still be made read-only.
        self.path.touch()
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            os.close(descriptor)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                return  # a file system without locks: go on without
            raise RunFolderError(
                f"run folder '{self.path.parent}' is in use by {holder or 'another process'}; "
                "wait for it to end, or give another run_dir"
            ) from None
        self._descriptor = descriptor
        _held.add(self)
        self.path.write_text(f"process {os.getpid()} on {socket.gethostname()}\n")

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
