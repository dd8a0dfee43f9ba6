"""What happened, step by step: the last transitions, in memory that is taken once."""

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
    """Places of one task's transitions, the oldest first."""

    def __init__(self, size: int) -> None:
        self._places = np.zeros(size, np.int64)
        self._first = self._end = 0

    def __len__(self) -> int:
        return self._end - self._first

    def add(self, place: int) -> None:
        self._places[self._end % len(self._places)] = place
        self._end += 1

    def forget_oldest(self) -> None:
        self._first += 1

    def pick(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places with these numbers, taken modulo the length."""
        return self._places[(self._first + numbers % len(self)) % len(self._places)]


class Transitions:
    """Up to ``size`` transitions; a new one takes the place of the oldest.

    Rows are written through NumPy and read as tensors of the same memory, so neither a step nor a
    batch costs a loop in Python. It stays in main memory; batches are sent to the device. Where the
    run has a folder (:meth:`keep_in`), a file in it holds all rows of the run, and the state is
    their number; else the state holds the rows.

    Args:
        size: Rows at most.
        state: Shape of a stored observation.
        actions: Numbers of an action.
        memory: Rows from before :meth:`clear`, at most, that stay.
    """

    def __init__(self, size: int, state: tuple[int, ...], actions: int, memory: int = 0) -> None:
        at_least(size, 1, "learner.buffer_size")
        self.size, self.memory = size, memory
        self.added = 0
        """Rows ever written; the newest is number ``added - 1``."""
        self.first = 0
        """The first row since everything was forgotten."""
        self.past: NDArray[np.int64] = np.empty(0, np.int64)
        """Numbers of the rows from before that are kept; they have the first places in memory."""
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
        """Where each task's rows are; kept from the first draw on that asks for it."""
        self.file: TransitionFile | None = None
        self._share: Callable[[Any], Any] = lambda value: value
        self._to_load: dict[str, Any] | None = None
        """A state whose rows are still in the file alone."""

    def keep_in(self, path: Path | None, share: Callable[[Any], Any]) -> None:
        """Keep all rows in a file.

        Args:
            path: The file; None on a process that does not write.
            share: Gives every process what the main one has.
        """
        self.file = None if path is None else TransitionFile(path, self._row)
        self._share = share

    def __len__(self) -> int:
        return len(self.past) + self._recent

    @property
    def _recent(self) -> int:
        return min(self.added - self.first, self.size)

    def _places(self, numbers: Any) -> Any:
        """Where in memory the rows with these numbers are."""
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
        place, rows = self._places(self.added), self._rows
        if self._of_task is not None:
            if self._recent == self.size:
                self._of_task[int(rows["task"][place])].forget_oldest()
            self._queue(self._of_task, task).add(place)
        rows["state"][place], rows["next_state"][place] = state, next_state
        rows["action"][place], rows["reward"][place] = action, reward
        rows["terminated"][place], rows["task"][place] = terminated, task
        rows["environment"][place] = environment
        self.added += 1
        if self.file is not None and self.added - self.file.rows >= min(self.size, _AT_ONCE):
            self._write(self.file)

    def _write(self, file: TransitionFile) -> None:
        places = self._places(np.arange(file.rows, self.added))
        rows = np.empty(len(places), self._row)
        for name, column in self._rows.items():
            rows[name] = column[places]
        if len(rows):
            file.append(rows)

    def clear(self, generator: torch.Generator | None = None) -> None:
        """Forget everything but ``memory`` rows, which are a uniform sample of all there were."""
        if self.memory and generator is not None:
            self.load()
            self._choose_past(generator)
        else:
            self.past, self._to_load = np.empty(0, np.int64), None
        self.first, self._of_task = self.added, None

    def _choose_past(self, generator: torch.Generator) -> None:
        before, device = self.first, generator.device
        kept = min(self.memory, len(self))
        # How many of a uniform sample of all rows are from before the last time: what is kept of
        # those is such a sample already.
        drawn = torch.randperm(self.added, generator=generator, device=device)[:kept]
        old = min(int((drawn < before).sum()), len(self.past))
        old = max(old, kept - self._recent)
        of_past = torch.randperm(len(self.past), generator=generator, device=device)[:old]
        of_recent = torch.randperm(self._recent, generator=generator, device=device)[: kept - old]
        places = np.sort(of_past.cpu().numpy())
        numbers = np.sort(of_recent.cpu().numpy()) + self.added - self._recent
        taken = np.concatenate([places, self._places(numbers)])
        for column in self._rows.values():
            column[:kept] = column[taken]
        self.past = np.concatenate([self.past[places], numbers])

    # ------------------------------------------------------------ reading

    def sample(self, n: int, generator: torch.Generator) -> dict[str, Tensor]:
        """So many transitions, drawn uniformly and independently, on the generator's device."""
        device, before = generator.device, len(self.past)
        drawn = torch.randint(len(self), (n,), generator=generator, device=device).cpu()
        places = self._places(self.added - self._recent - before + drawn)
        return self._take(torch.where(drawn < before, drawn, places), device)

    def sample_evenly(
        self, n: int, tasks: Sequence[int], number: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """The same with as many of each task, drawn uniformly among its own.

        Args:
            n: Transitions.
            tasks: Which, of those that have any; one that comes twice has twice the share.
            number: Of the draw. Where tasks do not divide ``n``, they take turns at the rest.
            generator: Gives the device as well.
        """
        if self._of_task is None:
            self._of_task = {}
            for place in self._window():
                self._queue(self._of_task, int(self._rows["task"][place])).add(int(place))
        device = generator.device
        drawn = torch.randint(2**62, (n,), generator=generator, device=device).cpu().numpy()
        present = [queue for task in tasks if (queue := self._of_task.get(task))]
        places = np.empty(n, np.int64)
        for position, queue in enumerate(present):
            share = slice((position - number * n) % len(present), None, len(present))
            places[share] = queue.pick(drawn[share])
        return self._take(torch.from_numpy(places), device)

    def _queue(self, queues: dict[int, _Queue], task: int) -> _Queue:
        if task not in queues:
            queues[task] = _Queue(self.size)
        return queues[task]

    def _take(self, places: Tensor, device: torch.device) -> dict[str, Tensor]:
        taken = {
            name: column.index_select(0, places).to(device)
            for name, column in self._columns.items()
            if name != "environment"
        }
        taken["task"] = taken["task"].long()
        return taken

    def newest(self, n: int) -> dict[str, Tensor]:
        """The last ``n`` transitions (or all, if there are fewer), in the order of time."""
        n = min(n, self._recent)
        places = torch.from_numpy(self._places(np.arange(self.added - n, self.added)))
        return {name: column[places] for name, column in self._columns.items()}

    # ------------------------------------------------------------ saving

    def state_dict(self) -> dict[str, Any]:
        """How many rows there are and which are kept; the rows, where no file has them."""
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
        """Where the rows since everything was forgotten are, the oldest first."""
        places: NDArray[Any] = self._places(np.arange(self.added - self._recent, self.added))
        return places

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` gave; rows of a file are read by :meth:`load`."""
        self.added, self.first, self._of_task = state["added"], state["first"], None
        self.past = state["past"].cpu().numpy()
        self._to_load = state
        if not state["mark"]:
            self.load()
        elif self.file is not None:
            self.file.rollback(state["mark"])

    def load(self) -> None:
        """Have the rows of the state in memory."""
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
