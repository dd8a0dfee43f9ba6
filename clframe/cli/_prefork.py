"""A process that imports everything once and forks a fresh process for every run.

Importing torch and related packages takes seconds, which every short run of a sweep would pay. This
process imports them once, trains nothing and starts no thread, so a copy of it is a clean start. It
reads requests as lines of JSON from standard input and reports each end of a run on standard
output. When the sweep is gone, standard input ends, and the runs are asked to save and exit.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import Any

from clframe.sweep.lines import Lines

PRELOADS = sys.platform == "linux"  # On other systems a fork after such imports is not safe.
_GRACE = 120.0  # Seconds a run has to save after its sweep is gone.
_PDEATHSIG = 1  # Of prctl(2): the signal that a process gets when its parent has ended.
_FOR_THE_RUNS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def serve() -> list[str] | None:
    """Start runs on request until standard input ends.

    Returns:
        In the process of a run: the arguments after `clframe fit`. In the server, at its end: None.
    """
    # The sweep or a cluster stops the runs; the server must outlive them.
    for number in _FOR_THE_RUNS:
        signal.signal(number, signal.SIG_IGN)
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake)
    requests = Lines(0)
    children: dict[int, str] = {}
    deadline = None
    while not requests.ended or children:
        watched = [woken] if requests.ended else [woken, requests.descriptor]
        ready, _, _ = select.select(watched, [], [], None if deadline is None else 1.0)
        if woken in ready:
            os.read(woken, 4096)
        _reap(children)
        if deadline is not None and time.monotonic() > deadline:
            _signal(children, signal.SIGKILL)
        if requests.descriptor not in ready:
            continue
        for request in requests.read():
            if "stop" in request:
                _signal(children, request["stop"])
                continue
            child = os.fork()
            if child == 0:
                # Since Python 3.12, asyncio has done so already if something imported it.
                signal.set_wakeup_fd(-1)
                os.close(woken)
                os.close(wake)
                _become(request)
                return list(request["words"])
            children[child] = request["name"]
        if requests.ended:
            deadline = time.monotonic() + _GRACE
            _signal(children, signal.SIGTERM)
    return None


def _reap(children: dict[int, str]) -> None:
    """Report the runs that have ended."""
    while children:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            return
        answer = {"name": children.pop(child), "code": os.waitstatus_to_exitcode(status)}
        try:
            os.write(1, json.dumps(answer).encode() + b"\n")
        except BrokenPipeError:  # Nobody listens any more.
            return


def _signal(children: dict[int, str], number: int) -> None:
    for child in children:
        os.kill(child, number)  # It is not reaped yet, so the number is still its own.


def _become(request: dict[str, Any]) -> None:
    """Turn this copy into the process of a run, with its own output, signals and environment."""
    _stop_with_server()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # SIGUSR1 and SIGUSR2 stay ignored: a cluster sends them to all processes of a job before it
    # takes the machine away, and the process that waits for the run handles them.
    for descriptor, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT),
    ):
        opened = os.open(path, flags, 0o666)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.dup2(1, 2)
    os.environ.update(request["environment"])
    sys.argv = ["clframe", "fit", *request["words"]]
    if not PRELOADS:
        os.execv(sys.executable, [sys.executable, "-P", "-m", "clframe", *sys.argv[1:]])


def _stop_with_server() -> None:
    """Let this run save and exit if the server is killed, because nobody waits for it any more.

    The server has one thread, so the system's own mechanism is reliable.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def main() -> int:
    """Import everything, then serve; in the process of a run, run it."""
    from clframe.cli.main import main as clframe_main
    from clframe.core.registry import discover

    if PRELOADS:
        import hydra  # noqa: F401

        import clframe.api
        import clframe.cli.fit
        import clframe.config.compose  # noqa: F401

        discover([])
    arguments = serve()
    return 0 if arguments is None else clframe_main(["fit", *arguments])


if __name__ == "__main__":
    sys.exit(main())
