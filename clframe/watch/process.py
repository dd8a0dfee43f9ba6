"""Find out whether a process works in a folder, without touching its lock."""

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
    """The process that works in a folder.

    Args:
        alive: Whether there is one; None if unknown, as on another machine.
        host: Its machine.
        since: When it entered the folder, in seconds since 1970.
    """

    alive: bool | None
    host: str = ""
    since: float = 0.0


def holder(folder: Path) -> Holder:
    """Return the process that works in a run or sweep folder.

    It looks the lock up in the system's list instead of trying it: holding it even for a moment
    could block a run that is about to begin.
    """
    path = folder / ".lock"
    try:
        with open_regular(path) as file:
            match = _HOLDER.match(file.read(200).decode("utf-8", "replace"))
            status = os.fstat(file.fileno())
    except FileNotFoundError:
        return Holder(False)
    except OSError:
        return Holder(None)
    if match is None:  # a file system without locks
        return Holder(None)
    number, host = int(match[1]), match[2]
    if host != socket.gethostname():
        return Holder(None, host, status.st_mtime)
    return Holder(_locked(number, status.st_ino) and _exists(number), host, status.st_mtime)


def _locked(number: int, inode: int) -> bool:
    """Return whether a process holds the lock of a file; True if the system lists no locks."""
    try:
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return True
    for line in lines:
        fields = line.split()
        # As in "1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF". In a container the device of a
        # file differs from the lock's, so only the process and the inode are compared.
        if len(fields) > 5 and "FLOCK" in fields:
            process, file = fields[-4], fields[-3].rpartition(":")[2]
            if (process, file) == (str(number), str(inode)):
                return True
    return False


def _exists(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:  # The process is somebody else's.
        return True
    return True
