"""Other processes: usable cores, clean ends, and a pool of workers.

A worker is a plain Python process that reads pickled calls. (The standard library's process pools
run the user's script again in every process, which fails in a script without a ``__main__`` guard,
and forking is not safe once torch has started threads.) It imports little more than the modules of
the functions it calls. State that a function keeps in its module stays there until the worker ends.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import io
import itertools
import json
import os
import pickle
import selectors
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import IO, Any, Protocol, TypeVar

from clframe.errors import ClframeError, DataError
from clframe.utils.source_file import spec_of_file

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_START = (
    "import sys, json; sys.path[:], files = json.loads(sys.argv[1]); "
    "from clframe.utils.processes import serve; serve(files)"
)
USER_MODULE = "clframe_user_"
"""Prefix of modules that are made from the user's files (``plugin_path``)."""
_WATCH = 0.5
"""Seconds between two checks whether the parent still runs."""


def usable_cores() -> int:
    """Return the cores this process may use, which a container or a job may limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_limits(threads: int) -> dict[str, str]:
    """Return the environment that limits a process to this number of threads."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(threads))


def hangup() -> tuple[signal.Signals, ...]:
    """Return the signal of a closed terminal; none if it is ignored, as with nohup."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return () if ignored else (signal.SIGHUP,)


def end_with_parent(parent: int | None = None) -> None:
    """End this process within about a second of its parent's end.

    It polls instead of using ``PR_SET_PDEATHSIG``, which exists only on Linux and follows the
    thread that started the process.

    Args:
        parent: The parent, which may have ended already; None for the current one.
    """
    expected = os.getppid() if parent is None else parent

    def watch() -> None:
        while os.getppid() == expected:
            time.sleep(_WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end-with-parent").start()


class WorkerHandle(Protocol):
    """The interface of a worker; answers come in the order of the calls."""

    def send(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Send a call."""
        ...

    def receive(self) -> Any:
        """Wait for the result of the oldest open call, and return or raise it."""
        ...

    def close(self) -> None:
        """End the worker, even during a call."""
        ...


class InlineWorker:
    """A worker that makes the calls in this process, when their results are received."""

    def __init__(self) -> None:
        self._calls: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()

    def send(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Add a call."""
        self._calls.append((function, arguments))

    def receive(self) -> Any:
        """Make the oldest open call."""
        function, arguments = self._calls.popleft()
        return function(*arguments)

    def close(self) -> None:
        """Forget the open calls."""
        self._calls.clear()


class ProcessWorker:
    """A worker that makes the calls in its own process, with one thread.

    Args:
        on_exit: Makes the message if the process ends by itself, from its exit code.
        advice: Advice about a call that cannot be sent to another process.
    """

    def __init__(self, on_exit: Callable[[int], str], advice: str) -> None:
        self._on_exit = on_exit
        self._advice = advice
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps([sys.path, user_files()])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **thread_limits(1)},
        )
        # An unreferenced worker must end.
        self._end = weakref.finalize(self, _end, self.process)

    @property
    def answers(self) -> IO[bytes]:
        """The worker's output; ready to be read as soon as there is an answer."""
        assert self.process.stdout is not None
        return self.process.stdout

    def send(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Send a call.

        Raises:
            DataError: The call cannot be pickled, or the process has ended.
        """
        assert self.process.stdin is not None
        call = pickle_call(function, arguments, self._advice)
        try:
            self.process.stdin.write(call)
            self.process.stdin.flush()
        except OSError:
            raise self._ended() from None

    def receive(self) -> Any:
        """Wait for the result of the oldest open call.

        Raises:
            DataError: The call raised an error that a user can cause, or the process has ended.
            RuntimeError: The call raised another error.
        """
        try:
            answer = pickle.load(self.answers)
        except (EOFError, OSError, pickle.UnpicklingError):
            raise self._ended() from None
        return _value(answer)

    def _ended(self) -> DataError:
        return DataError(self._on_exit(self.process.wait()))

    def close(self) -> None:
        """End the process."""
        self._end()


def user_files() -> dict[str, str]:
    """Return the files of modules from the user's files, which no import would find."""
    return {
        name: os.path.abspath(str(module.__file__))
        for name, module in list(sys.modules.items())
        if name.startswith(USER_MODULE) and getattr(module, "__file__", None)
    }


class _Finder(importlib.abc.MetaPathFinder):
    """Finder of modules from the user's files.

    Args:
        files: Files by module name.
    """

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module, if it is one of them."""
        if fullname not in self.files:
            return None
        return spec_of_file(fullname, self.files[fullname])


class _Pickler(pickle.Pickler):
    """Pickler that refuses objects of the user's script, which a worker does not run."""

    def reducer_override(self, obj: Any) -> Any:
        """Check each object that is pickled by its name."""
        if isinstance(obj, type | FunctionType) and obj.__module__ == "__main__":
            raise pickle.PicklingError(f"'{obj.__qualname__}' is defined in the script itself")
        return NotImplemented


def find_user_files(files: dict[str, str]) -> None:
    """Let this process import modules from the user's files, by module name."""
    sys.meta_path.append(_Finder(files))


def pickle_call(function: Callable[..., Any], arguments: tuple[Any, ...], advice: str) -> bytes:
    """Return a call as bytes for another process.

    Args:
        function: The function to call.
        arguments: Its arguments.
        advice: Advice if it cannot be sent.

    Raises:
        DataError: The call cannot be pickled.
    """
    try:
        with io.BytesIO() as buffer:
            _Pickler(buffer).dump((function, arguments))
            return buffer.getvalue()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise DataError(f"a worker process cannot receive this call ({error}); {advice}") from error


def make_call(call: bytes) -> bytes:
    """Make a call that :func:`pickle_call` wrote, and return its result or error as bytes."""
    function, arguments = pickle.loads(call)
    return answer_call(function, arguments)


def read_answer(answer: bytes) -> Any:
    """Return the result in an answer of :func:`answer_call`, or raise its error.

    Raises:
        DataError: The call raised an error that a user can cause.
        RuntimeError: The call raised another error.
    """
    return _value(pickle.loads(answer))


def _value(answer: tuple[str, Any]) -> Any:
    kind, value = answer
    if kind == "error":
        raise DataError(value)
    if kind == "crash":
        raise RuntimeError(f"a worker process failed:\n{value}")
    return value


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # a call that could not be sent any more
                pipe.close()


def _exit_sentence(code: int) -> str:
    return f"a worker process ended with code {code} (memory?)"


class WorkerPool:
    """A pool of workers, for calls to any worker or with state in each.

    Use :meth:`map_unordered` for calls without state. If it matters which worker makes a call, use
    the :attr:`workers` directly.

    Args:
        processes: Number of processes; 0 makes the calls in this process.
        on_exit: Makes the message if a worker ends by itself, from its exit code.
        advice: Advice about a call that cannot be sent to another process.
    """

    def __init__(
        self,
        processes: int,
        on_exit: Callable[[int], str] = _exit_sentence,
        advice: str = "give it as a function of a module or of a plugin_path file",
    ) -> None:
        self._processes = [ProcessWorker(on_exit, advice) for _ in range(processes)]
        self.workers: list[WorkerHandle] = [*self._processes] or [InlineWorker()]

    def __len__(self) -> int:
        return len(self.workers)

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def map_unordered(
        self, function: Callable[[Item], Answer], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Answer]]:
        """Call the function on every item and yield each item with its result once it is ready.

        Workers take items as they become free. No other call may be open during this time, and
        after an error the pool cannot be used again.

        Raises:
            DataError: As for the workers.
            RuntimeError: As for the workers.
        """
        remaining = iter(items)
        if not self._processes:
            for item in remaining:
                yield item, function(item)
            return
        with selectors.DefaultSelector() as busy:

            def send_next(worker: ProcessWorker) -> None:
                for item in itertools.islice(remaining, 1):
                    worker.send(function, item)
                    busy.register(worker.answers, selectors.EVENT_READ, (worker, item))

            for worker in self._processes:
                send_next(worker)
            while busy.get_map():
                for key, _ in busy.select():
                    worker, item = key.data
                    busy.unregister(worker.answers)
                    answer = worker.receive()
                    # Sent first, so that the worker is not idle while the answer is used.
                    send_next(worker)
                    yield item, answer

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.close()


def serve(files: dict[str, str] | None = None) -> None:
    """Run a worker: make the calls from standard input until it ends.

    Args:
        files: Files of modules that cannot be imported otherwise, by module name.
    """
    find_user_files(files or {})
    # Ctrl-C and a closed terminal reach the whole process group, and a scheduler's signals all
    # processes of a job; the parent decides when workers end.
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"):
        signal.signal(signal.Signals[name], signal.SIG_IGN)
    # The end of the calls would do the same, but only for an idle worker.
    end_with_parent()
    answers: IO[bytes] = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Output of libraries must not get between the answers.
    calls = sys.stdin.buffer
    while True:
        try:
            function, arguments = pickle.load(calls)
        except EOFError:
            return
        except Exception:
            answer = pickle.dumps(("crash", traceback.format_exc()))
        else:
            answer = answer_call(function, arguments)
        try:
            answers.write(answer)
            answers.flush()
        except BrokenPipeError:
            # The parent is gone, so nobody waits for this answer. Closing the pipe in the usual way
            # would try to write it again.
            os._exit(1)


def answer_call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    """Make a call, and return its result or error as bytes."""
    try:
        return pickle.dumps(("value", function(*arguments)))
    except ClframeError as error:
        return pickle.dumps(("error", str(error)))
    except Exception:
        return pickle.dumps(("crash", traceback.format_exc()))
