"""Processes that call functions for this one, kept alive from call to call.

A worker is started as a plain Python process that reads pickled calls. (The standard library's
process pools start the user's script again in every process, which goes wrong in a script without
a ``__main__`` guard, and forking is not safe once torch has started threads.) It imports no torch.
What a function keeps in its module stays there until the worker ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import IO, Any, Protocol

from clframe.errors import ClframeError, DataError

_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from clframe.robot.workers import main; main()"
)


class Caller(Protocol):
    """Something that a call can be handed to; answers come in the order of the calls."""

    def send(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Hand over a call."""
        ...

    def receive(self) -> Any:
        """Wait for what the oldest open call returned; what it raised is raised here."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Here:
    """Calls in this process."""

    def __init__(self) -> None:
        self._answers: list[Any] = []

    def send(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call at once."""
        self._answers.append(function(*arguments))

    def receive(self) -> Any:
        """What the oldest open call returned."""
        return self._answers.pop(0)

    def close(self) -> None:
        """Nothing is to be ended."""


class Worker:
    """Calls in a process of its own, with one thread."""

    def __init__(self) -> None:
        threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **dict.fromkeys(threads, "1")},
        )
        # A worker that nobody holds any more must not stay.
        self._end = weakref.finalize(self, _end, self.process)

    def send(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Hand over a call."""
        assert self.process.stdin is not None
        try:
            call = pickle.dumps((function, arguments))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise DataError(
                f"what a worker process should call cannot be handed to it ({error}); set "
                "stream.processes=0, or give the environment as a function of a module"
            ) from error
        try:
            self.process.stdin.write(call)
            self.process.stdin.flush()
        except OSError:
            raise self._ended() from None

    def receive(self) -> Any:
        """What the oldest open call returned."""
        assert self.process.stdout is not None
        try:
            kind, value = pickle.load(self.process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            raise self._ended() from None
        if kind == "error":
            raise DataError(value)
        if kind == "crash":
            raise RuntimeError(f"a worker process failed:\n{value}")
        return value

    def _ended(self) -> DataError:
        code = self.process.wait()
        return DataError(
            f"a worker process of the robot environments ended with code {code} (memory?); "
            "stream.processes=0 works without other processes"
        )

    def close(self) -> None:
        """End the process."""
        self._end()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # a call that could not be handed over any more
                pipe.close()


def crew(processes: int) -> list[Caller]:
    """So many workers; with none, calls are made in this process."""
    return [Worker() for _ in range(processes)] if processes else [Here()]


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def close(callers: Sequence[Caller]) -> None:
    """End all of them."""
    for caller in callers:
        caller.close()


def main() -> None:
    """Serve calls from standard input until it ends."""
    # Ctrl-C reaches the whole group of processes; the parent decides what becomes of us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers: IO[bytes] = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between the answers
    calls = sys.stdin.buffer
    while True:
        try:
            function, arguments = pickle.load(calls)
        except EOFError:
            return
        except Exception:
            answer: tuple[str, Any] = ("crash", traceback.format_exc())
        else:
            try:
                answer = ("value", function(*arguments))
            except ClframeError as error:
                answer = ("error", str(error))
            except Exception:
                answer = ("crash", traceback.format_exc())
        pickle.dump(answer, answers)
        answers.flush()
