"""Where the threads of a group of seeds meet, so that one of them can work for all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any


class Meeting:
    """A place with a seat for every seed; the last to arrive does the work of all.

    Between two meetings the seats take turns, one at a time, so that nothing a run does has to be
    safe for threads.

    Args:
        seats: How many there are.
    """

    def __init__(self, seats: int) -> None:
        self._brought: list[Any] = [None] * seats
        self._given: Sequence[Any] = ()
        self._work: Callable[[list[Any]], Sequence[Any]] = list
        self._barrier = threading.Barrier(seats, self._meet)
        self.turn = threading.Lock()

    def join(self, seat: int, brought: Any, work: Callable[[list[Any]], Sequence[Any]]) -> Any:
        """Bring something and wait for the others; get this seat's part of what is made of it.

        Raises:
            threading.BrokenBarrierError: Another seat has failed and will not come.
        """
        self._brought[seat], self._work = brought, work
        self.turn.release()
        try:
            self._barrier.wait()
        finally:
            self.turn.acquire()
        # The next meeting cannot begin before this seat has come to it.
        return self._given[seat]

    def _meet(self) -> None:
        self._given = self._work(list(self._brought))

    def leave(self) -> None:
        """Send everybody home: this seat will not come again."""
        self._barrier.abort()
