"""Whether a process works in a folder, told without touching its lock."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from clframe.utils.regular import open_regular

_LOCKS = Path("/proc/locks")
_HOLDER = re.compile(r"process (\d+) on (\S+)")


@dataclass(frozen=True)
class Holder:
    """Who works in a folder.

    Args:
        alive: Whether somebody does; None where that cannot be known, as on another machine.
        host: The machine.
        since: When the folder was entered, in seconds since 1970.
    """

    alive: bool | None
    host: str = ""
    since: float = 0.0


def holder(folder: Path) -> Holder:
    """Who works in a run or sweep folder.

    The lock is looked up in the system's list and not tried: to hold it even for a moment could
    turn away a run that is about to begin.
    """
    path = folder / ".lock"
    try:
        with open_regular(path) as file:
            found = _HOLDER.match(file.read(200).decode("utf-8", "replace"))
            status = os.fstat(file.fileno())
    except FileNotFoundError:
        return Holder(False)
    except OSError:
        return Holder(None)
    if found is None:  # a file system without locks
        return Holder(None)
    number, host = int(found[1]), found[2]
    if host != socket.gethostname():
        return Holder(None, host, status.st_mtime)
    return Holder(_locked(number, status.st_ino) and _exists(number), host, status.st_mtime)


def _locked(number: int, inode: int) -> bool:
    """Whether a process holds the lock of a file; true where the system has no list of locks."""
    try:
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return True
    for line in lines:
        words = line.split()
        # As in "1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF"; the device of a file in a
        # container is another one than its lock's, so the process and the inode tell.
        if len(words) > 5 and "FLOCK" in words:
            process, file = words[-4], words[-3].rpartition(":")[2]
            if (process, file) == (str(number), str(inode)):
                return True
    return False


def _exists(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is somebody else's
        return True
    return True
