"""Run many jobs at a time with any launcher; Ctrl-C ends them all without loss."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

from clframe.sweep.job import Job
from clframe.utils.console import drop_if_lost
from clframe.utils.processes import hangup

_PATIENCE = 0.2  # seconds until a signal is noticed
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Launcher(Protocol):
    """A launcher of runs, each in its own process."""

    @property
    def width(self) -> int | None:
        """Maximum number of runs at a time; None leaves that to a cluster."""

    def start(self, job: Job) -> None:
        """Start a run."""

    def wait(self, seconds: float) -> list[tuple[str, int | str]]:
        """Wait for runs to end, at most for this time.

        Returns:
            The names of ended runs, each with its exit code (negative: a signal) or a reason.
        """

    def stop(self, at_once: bool) -> None:
        """Ask all runs to save and exit, or end them at once."""

    def close(self) -> None:
        """Release all resources."""


@dataclass(frozen=True)
class JobResult:
    """A run that has ended, successfully or not."""

    job: Job
    code: int | str
    seconds: float


class Interrupts:
    """Counter of the signals that ask to stop.

    Counting instead of raising lets a write in progress finish.
    """

    def __init__(self) -> None:
        self.count = 0

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGHUP:
            self.count += 1
            return
        # A closed terminal sends it more than once, which does not mean a second request.
        self.count = max(self.count, 1)
        drop_if_lost()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count signals in this context instead of stopping."""
        before = {number: signal.signal(number, self._handle) for number in (*_SIGNALS, *hangup())}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run_all(
    launcher: Launcher,
    jobs: Sequence[Job],
    interrupts: Interrupts,
    started: Callable[[Job], None],
) -> Iterator[JobResult]:
    """Run all jobs and yield each as it ends; after an interrupt, only those that had started.

    Args:
        launcher: Starts the jobs.
        jobs: The jobs in order.
        interrupts: The first asks the runs to save and exit, the second ends them at once.
        started: Called for each job when it starts.
    """
    waiting = deque(jobs)
    running: dict[str, tuple[Job, float]] = {}
    handled = 0
    while running or waiting:
        if interrupts.count > handled:
            waiting.clear()
            launcher.stop(at_once=handled > 0)
            handled = interrupts.count
        while waiting and (launcher.width is None or len(running) < launcher.width):
            job = waiting.popleft()
            running[job.name] = job, time.monotonic()
            job.begin_log()
            launcher.start(job)
            started(job)
        if running:
            for name, code in launcher.wait(_PATIENCE):
                job, since = running.pop(name)
                yield JobResult(job, code, time.monotonic() - since)
