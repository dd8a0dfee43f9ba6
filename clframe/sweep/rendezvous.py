"""A meeting point for the threads of a group of seeds, where one works for all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any


class Rendezvous:
    """A barrier to which every thread brings a request; the last to arrive does all the work.

    Between two barriers the threads run one at a time, holding the lock, so the code of a run does
    not need to be thread-safe.

    Args:
        size: Number of threads.
    """

    def __init__(self, size: int) -> None:
        self._brought: list[Any] = [None] * size
        self._results: Sequence[Any] = ()
        self._work: Callable[[list[Any]], Sequence[Any]] = list
        self._barrier = threading.Barrier(size, self._work_for_all)
        self.lock = threading.Lock()

    def join(self, index: int, brought: Any, work: Callable[[list[Any]], Sequence[Any]]) -> Any:
        """Submit a request and wait for the others; return this thread's share of the results.

        Raises:
            threading.BrokenBarrierError: Another thread has failed and will not come.
        """
        self._brought[index], self._work = brought, work
        self.lock.release()
        try:
            self._barrier.wait()
        finally:
            self.lock.acquire()
        # The next barrier cannot be passed before this thread has reached it.
        return self._results[index]

    def _work_for_all(self) -> None:
        self._results = self._work(list(self._brought))

    def abort(self) -> None:
        """End all waiting: this thread will not come again."""
        self._barrier.abort()
