"""Processes of clframe that need not import torch again.

A session of tests has one process server (:mod:`tests.helpers.process_server`). The first test that
needs it starts it, and all workers of pytest-xdist share it. Tests about the start of an
interpreter use ``sys.executable`` instead.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FOLDER = "CLFRAME_TEST_SESSION"
"""The variable that names the folder that all workers of a session share."""


class Process:
    """A process that the server has forked.

    Args:
        connection: The connection to the server that stands for it.
        output: The file that takes its standard output; None if nobody reads it.
        errors: The file that takes its standard error.
    """

    def __init__(self, connection: socket.socket, output: Path | None, errors: Path) -> None:
        self._connection = connection
        self.pid = int(connection.recv(100))
        self.output, self.errors = output, errors
        self.code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        if self.code is None:
            self._connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                self._read()
        return self.code

    def wait(self, seconds: float = 240) -> int:
        """Wait for the end of the process and return its exit code."""
        if self.code is None:
            self._connection.settimeout(seconds)
            self._read()
        assert self.code is not None
        return self.code

    def _read(self) -> None:
        """Read the exit code, after which nothing more comes."""
        self.code = int(self._connection.recv(100))
        self._connection.close()

    def signal(self, number: int) -> None:
        """Send a signal to the running process."""
        assert self.poll() is None
        os.kill(self.pid, number)

    def end(self) -> tuple[int, str]:
        """Wait for a process that ends by itself; return its exit code and standard error."""
        code = self.wait()
        error = self.errors.read_text() if self.errors.is_file() else ""
        assert "Traceback" not in error, error
        return code, error

    def kill(self) -> None:
        """Kill the process and those that it has started."""
        if self.poll() is None:
            for pid in [*descendants(self.pid), self.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.wait()


class ProcessServer:
    """Starts processes by the server that all workers share.

    Args:
        folder: Where the server's socket is; the same for all workers of a session.
    """

    started: ClassVar[subprocess.Popen[bytes] | None] = None
    """The server's process, in the worker that started it."""

    def __init__(self, folder: Path) -> None:
        # A socket's path has at most 107 characters, so it is not in the folder of the tests.
        with (folder / "process_server.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            noted = folder / "process_server"
            lease = None
            if noted.exists():
                with contextlib.suppress(OSError):
                    lease = self._lease(noted.read_text())
            if lease is None:
                address = str(Path(tempfile.mkdtemp(prefix="clframe-")) / "server")
                self._start(address)
                noted.write_text(address)
                lease = self._lease(address)
            self.address, self._held = noted.read_text(), lease
        self.python = folder / "python"
        """An executable that does what ``python`` does, in a fork of the server."""
        client = HERE / "process_client.py"
        if not self.python.exists():
            text = f'#!/bin/sh\nexec "{sys.executable}" -I -S "{client}" "{self.address}" "$@"\n'
            made = folder / f"python{os.getpid()}"
            made.write_text(text)
            made.chmod(0o755)
            made.rename(self.python)

    @staticmethod
    def _start(address: str) -> None:
        # Kept: the server outlives this worker if another one still holds a lease.
        ProcessServer.started = server = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.process_server", address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C reaches pytest, which then gives its lease back
        )
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"

    @staticmethod
    def _lease(address: str) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(address)
        connection.send(b'{"lease": true}')
        return connection

    def close(self) -> None:
        """Give the lease back; the server ends when no worker holds one."""
        self._held.close()

    def start(
        self,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str] | None = None,
        output: Path | None = None,
        errors: Path | None = None,
        ignored: Sequence[int] = (),
        terminal: str = "",
    ) -> Process:
        """Start what ``python`` would start with these arguments.

        Args:
            words: The arguments, such as ``["-m", "clframe", "fit"]``.
            folder: The working directory.
            environment: All variables; those of this process if it is not given.
            output: Takes standard output; nothing does if it is not given.
            errors: Takes standard error; a file in the folder if it is not given.
            ignored: Signals that the process ignores from its start.
            terminal: The terminal that the process has instead of these files.
        """
        errors = errors or folder / "errors"
        request = {
            "words": list(words),
            "folder": str(folder),
            "environment": dict(os.environ if environment is None else environment),
            "ignored": list(ignored),
            "terminal": terminal,
            "session": bool(terminal),
        }
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(self.address)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptors = [
            os.open(os.devnull, os.O_RDONLY),
            os.open(output or os.devnull, flags),
            os.open(errors, flags),
        ]
        socket.send_fds(connection, [json.dumps(request).encode()], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        return Process(connection, output, errors)

    def run(
        self,
        *words: str,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        seconds: float = 600,
    ) -> subprocess.CompletedProcess[str]:
        """Run a process to its end and return what it wrote.

        Args:
            words: The arguments of ``python``.
            folder: The working directory.
            environment: All variables; those of this process if it is not given.
            seconds: How long it may take.
        """
        with tempfile.TemporaryDirectory() as place:
            output, errors = Path(place) / "stdout", Path(place) / "stderr"
            process = self.start(words, folder, environment, output, errors)
            try:
                code = process.wait(seconds)
            finally:
                process.kill()
            return subprocess.CompletedProcess(words, code, output.read_text(), errors.read_text())


@functools.cache
def session_server() -> ProcessServer:
    """Return the server of this session of tests, started when it is first asked for."""
    server = ProcessServer(Path(os.environ[FOLDER]))
    atexit.register(server.close)
    return server


def until(true: Callable[[], object], seconds: float) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"it did not come within {seconds} s"
        time.sleep(0.02)


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *descendants(child)]
    return found


def alive(pid: int) -> bool:
    """Return whether a process exists and has not ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
