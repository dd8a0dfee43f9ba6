"""Import clframe once and fork a process for every request on a Unix socket.

A new interpreter spends five CPU seconds on importing torch and Lightning. A fork of this process
spends none. Tests talk to it through :mod:`tests.helpers.processes` or through an executable that
takes the place of ``python`` (``process_client.py``).

A connection is one process. The request is one message: JSON, with the descriptors that become
standard input, output and error. The server answers with a line that holds the number of the
process, and with a second line that holds its exit code when it ends. A connection that closes
early kills its process. A request ``{"lease": true}`` keeps the server alive; it ends with the last
lease.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

_ROOM = 1 << 20
"""Bytes of the largest request."""


def serve(address: str) -> dict[str, Any] | None:
    """Fork for every request until the last lease is gone.

    Returns:
        In a forked process: its request. In the server, at its end: None.
    """
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(address)
    listening.listen(64)
    ready = selectors.DefaultSelector()
    ready.register(listening, selectors.EVENT_READ, "new")
    running: dict[socket.socket, int] = {}  # the process of each connection
    leases: set[socket.socket] = set()
    leased = False
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while leases or running or not leased:
        for key, _ in ready.select():
            if key.data == "new":
                ready.register(listening.accept()[0], selectors.EVENT_READ, "connection")
            elif key.data == "connection":
                connection: Any = key.fileobj
                message, descriptors, _, _ = socket.recv_fds(connection, _ROOM, 3)
                if not message:  # closed by the other side
                    ready.unregister(connection)
                    connection.close()
                    leases.discard(connection)
                    if connection in running:
                        os.kill(running[connection], signal.SIGKILL)
                    continue
                request: dict[str, Any] = json.loads(message)
                if "lease" in request:
                    leases.add(connection)
                    leased = True
                    continue
                child = os.fork()
                if child == 0:
                    for one in list(ready.get_map().values()):
                        held: Any = one.fileobj
                        if isinstance(held, int):
                            os.close(held)
                        else:
                            held.close()
                    ready.close()
                    return {**request, "descriptors": descriptors}
                for descriptor in descriptors:
                    os.close(descriptor)
                running[connection] = child
                connection.send(f"{child}\n".encode())
                ready.register(os.pidfd_open(child), selectors.EVENT_READ, connection)
            else:  # a process has ended
                ready.unregister(key.fileobj)
                os.close(key.fd)
                _, status = os.waitpid(running.pop(key.data), 0)
                if key.data.fileno() >= 0:
                    key.data.send(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    Path(address).unlink()
    return None


def become(request: dict[str, Any]) -> None:
    """Turn this copy of the server into the process that was asked for."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    # Whoever runs the tests may ignore these, as nohup and background jobs do.
    for ending in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(ending, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in request.get("ignored", ()):
        signal.signal(number, signal.SIG_IGN)
    if request.get("session"):
        os.setsid()  # the first terminal that is opened becomes this process's own
    for number, descriptor in enumerate(request["descriptors"]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request.get("terminal"):
        terminal = os.open(request["terminal"], os.O_RDWR)
        for number in range(3):
            os.dup2(terminal, number)
        os.close(terminal)
    if "OMP_NUM_THREADS" in os.environ:
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def execute(words: list[str]) -> None:
    """Do what ``python`` would do with these arguments."""
    import runpy

    safe = bool(os.environ.get("PYTHONSAFEPATH"))
    while words[0] in ("-P", "-u"):
        safe = safe or words[0] == "-P"
        words = words[1:]
    option, rest = words[0], words[1:]
    if option == "-m":
        sys.argv = rest
        sys.path[:1] = [] if safe else [os.getcwd()]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif option == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path[:1] = [] if safe else [""]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = words
        sys.path[:1] = [] if safe else [str(Path(option).resolve().parent)]
        runpy.run_path(option, run_name="__main__")


def preload() -> None:
    """Import what most runs import, and start no thread by it."""
    import hydra  # noqa: F401
    import torch

    import clframe.api
    import clframe.cli.fit
    import clframe.cli.main
    import clframe.config.compose
    import clframe.testing  # noqa: F401
    from clframe.core.registry import discover

    torch.optim.SGD([torch.zeros(1, requires_grad=True)])  # imports dynamo
    discover([])
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"a process with {threads} threads cannot be forked safely"
    gc.collect()
    gc.freeze()


def leave(request: dict[str, Any]) -> NoReturn:
    """Execute a request and exit as ``python`` does, but without taking the modules apart."""
    code = 0
    try:
        execute(request["words"])
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            sys.stderr.write(f"{end.code}\n")
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    preload()
    asked = serve(sys.argv[1])
    if asked is not None:
        become(asked)
        leave(asked)
    os._exit(0)
