"""A buffer of the last transitions in preallocated memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clframe.rl.transition_file import TransitionFile
from clframe.utils.setting_checks import at_least

_AT_ONCE = 4096
"""Rows after which they are written to the file, if there is one."""


class _Queue:
    """Positions of one task's transitions, the oldest first."""

    def __init__(self, size: int) -> None:
        self._positions = np.zeros(size, np.int64)
        self._first = self._end = 0

    def __len__(self) -> int:
        return self._end - self._first

    def add(self, position: int) -> None:
        self._positions[self._end % len(self._positions)] = position
        self._end += 1

    def forget_oldest(self) -> None:
        self._first += 1

    def pick(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions with these numbers, taken modulo the length."""
        return self._positions[(self._first + numbers % len(self)) % len(self._positions)]


class Transitions:
    """Up to ``size`` transitions; a new one replaces the oldest.

    Rows are written through NumPy and read as tensors of the same memory, so neither a step nor a
    batch needs a loop in Python. The memory is on the host; batches are sent to the device. If the
    run has a folder (:meth:`keep_in`), a file in it holds all rows of the run and the state is
    their number; otherwise the state holds the rows.

    Args:
        size: Largest number of rows.
        state: Shape of a stored observation.
        actions: Numbers in an action.
        memory: Largest number of rows to keep at :meth:`clear`.
    """

    def __init__(self, size: int, state: tuple[int, ...], actions: int, memory: int = 0) -> None:
        at_least(size, 1, "learner.buffer_size")
        self.size, self.memory = size, memory
        self.added = 0
        """Rows ever written; the newest is number ``added - 1``."""
        self.first = 0
        """The first row since the last :meth:`clear`."""
        self.past: NDArray[np.int64] = np.empty(0, np.int64)
        """Numbers of the older rows that are kept, at the first positions in memory."""
        self._row = np.dtype(
            [
                ("state", np.float32, state),
                ("next_state", np.float32, state),
                ("action", np.float32, (actions,)),
                ("reward", np.float32),
                ("terminated", np.float32),
                ("task", np.int32),
                ("environment", np.int32),
            ]
        )
        self._rows: dict[str, NDArray[Any]] = {
            name: np.zeros((memory + size, *self._row[name].shape), self._row[name].base)
            for name in self._row.names or ()
        }
        self._columns = {name: torch.from_numpy(rows) for name, rows in self._rows.items()}
        self._of_task: dict[int, _Queue] | None = None
        """Positions of each task's rows; maintained after the first draw by task."""
        self.file: TransitionFile | None = None
        self._share: Callable[[Any], Any] = lambda value: value
        self._to_load: dict[str, Any] | None = None
        """A state whose rows have not been read from the file yet."""

    def keep_in(self, path: Path | None, share: Callable[[Any], Any]) -> None:
        """Keep all rows in a file.

        Args:
            path: The file; None on a process that does not write.
            share: Broadcasts the main process's value to all processes.
        """
        self.file = None if path is None else TransitionFile(path, self._row)
        self._share = share

    def __len__(self) -> int:
        return len(self.past) + self._recent

    @property
    def _recent(self) -> int:
        return min(self.added - self.first, self.size)

    def _positions(self, numbers: Any) -> Any:
        """Return the positions in memory of the rows with these numbers."""
        return self.memory + numbers % self.size

    # ------------------------------------------------------------ writing

    def add(
        self,
        state: NDArray[Any],
        action: NDArray[Any],
        reward: float,
        next_state: NDArray[Any],
        terminated: bool,
        task: int,
        environment: int = 0,
    ) -> None:
        """Write one transition."""
        position, rows = self._positions(self.added), self._rows
        if self._of_task is not None:
            if self._recent == self.size:
                self._of_task[int(rows["task"][position])].forget_oldest()
            self._queue(self._of_task, task).add(position)
        rows["state"][position], rows["next_state"][position] = state, next_state
        rows["action"][position], rows["reward"][position] = action, reward
        rows["terminated"][position], rows["task"][position] = terminated, task
        rows["environment"][position] = environment
        self.added += 1
        if self.file is not None and self.added - self.file.rows >= min(self.size, _AT_ONCE):
            self._write(self.file)

    def _write(self, file: TransitionFile) -> None:
        positions = self._positions(np.arange(file.rows, self.added))
        rows = np.empty(len(positions), self._row)
        for name, column in self._rows.items():
            rows[name] = column[positions]
        if len(rows):
            file.append(rows)

    def clear(self, generator: torch.Generator | None = None) -> None:
        """Forget everything except ``memory`` rows, a uniform sample of all rows so far."""
        if self.memory and generator is not None:
            self.load()
            self._choose_past(generator)
        else:
            self.past, self._to_load = np.empty(0, np.int64), None
        self.first, self._of_task = self.added, None

    def _choose_past(self, generator: torch.Generator) -> None:
        before, device = self.first, generator.device
        kept = min(self.memory, len(self))
        # How many rows of a uniform sample of all rows are older than the last call. The rows kept
        # from then are a uniform sample already.
        drawn = torch.randperm(self.added, generator=generator, device=device)[:kept]
        old = min(int((drawn < before).sum()), len(self.past))
        old = max(old, kept - self._recent)
        of_past = torch.randperm(len(self.past), generator=generator, device=device)[:old]
        of_recent = torch.randperm(self._recent, generator=generator, device=device)[: kept - old]
        kept_past = np.sort(of_past.cpu().numpy())
        numbers = np.sort(of_recent.cpu().numpy()) + self.added - self._recent
        taken = np.concatenate([kept_past, self._positions(numbers)])
        for column in self._rows.values():
            column[:kept] = column[taken]
        self.past = np.concatenate([self.past[kept_past], numbers])

    # ------------------------------------------------------------ reading

    def sample(self, n: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Draw n transitions uniformly and independently, on the generator's device."""
        device, before = generator.device, len(self.past)
        drawn = torch.randint(len(self), (n,), generator=generator, device=device).cpu()
        positions = self._positions(self.added - self._recent - before + drawn)
        return self._take(torch.where(drawn < before, drawn, positions), device)

    def sample_evenly(
        self, n: int, tasks: Sequence[int], number: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Draw n transitions with an equal share per task, uniformly within each task.

        Args:
            n: Number of transitions.
            tasks: The tasks, of those that have any; a task listed twice has twice the share.
            number: The number of the draw; tasks take turns at the remainder of ``n``.
            generator: Also determines the device.
        """
        if self._of_task is None:
            self._of_task = {}
            for row in self._window():
                self._queue(self._of_task, int(self._rows["task"][row])).add(int(row))
        device = generator.device
        drawn = torch.randint(2**62, (n,), generator=generator, device=device).cpu().numpy()
        present = [queue for task in tasks if (queue := self._of_task.get(task))]
        positions = np.empty(n, np.int64)
        for position, queue in enumerate(present):
            share = slice((position - number * n) % len(present), None, len(present))
            positions[share] = queue.pick(drawn[share])
        return self._take(torch.from_numpy(positions), device)

    def _queue(self, queues: dict[int, _Queue], task: int) -> _Queue:
        if task not in queues:
            queues[task] = _Queue(self.size)
        return queues[task]

    def _take(self, positions: Tensor, device: torch.device) -> dict[str, Tensor]:
        taken = {
            name: column.index_select(0, positions).to(device)
            for name, column in self._columns.items()
            if name != "environment"
        }
        taken["task"] = taken["task"].long()
        return taken

    def newest(self, n: int) -> dict[str, Tensor]:
        """Return the last ``n`` transitions (or all, if there are fewer) in temporal order."""
        n = min(n, self._recent)
        positions = torch.from_numpy(self._positions(np.arange(self.added - n, self.added)))
        return {name: column[positions] for name, column in self._columns.items()}

    # ------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Any]:
        """Return the counters and, without a file, the rows."""
        if self._to_load is not None:
            return self._to_load
        state = {"added": self.added, "first": self.first, "past": torch.from_numpy(self.past)}
        if self.file is not None:
            self._write(self.file)
            return {**state, "mark": self.file.mark(), "columns": {}}
        kept = torch.cat([torch.arange(len(self.past)), torch.from_numpy(self._window())])
        columns = {name: column[kept] for name, column in self._columns.items()}
        return {**state, "mark": {}, "columns": columns}

    def _window(self) -> NDArray[Any]:
        """Return the positions of the rows since the last :meth:`clear`, the oldest first."""
        positions: NDArray[Any] = self._positions(np.arange(self.added - self._recent, self.added))
        return positions

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of :meth:`state_dict`; :meth:`load` reads rows from a file."""
        self.added, self.first, self._of_task = state["added"], state["first"], None
        self.past = state["past"].cpu().numpy()
        self._to_load = state
        if not state["mark"]:
            self.load()
        elif self.file is not None:
            self.file.rollback(state["mark"])

    def load(self) -> None:
        """Load the rows of the state into memory."""
        state, self._to_load = self._to_load, None
        if state is None:
            return
        columns = state["columns"]
        if state["mark"]:
            columns = None
            if self.file is not None:
                recent = np.arange(self.added - self._recent, self.added)
                rows = self.file.read(np.concatenate([self.past, recent]))
                names = self._row.names or ()
                columns = {name: torch.from_numpy(rows[name].copy()) for name in names}
            columns = self._share(columns)
        kept = torch.cat([torch.arange(len(self.past)), torch.from_numpy(self._window())])
        for name, column in self._columns.items():
            column[kept] = columns[name].cpu()
