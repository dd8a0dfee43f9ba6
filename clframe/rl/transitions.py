"""What happened, step by step: the last transitions, in memory that is taken once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clframe.utils.settings import at_least


class _Queue:
    """Rows of one task, the oldest first."""

    def __init__(self, size: int) -> None:
        self._rows = np.zeros(size, np.int64)
        self._first = self._end = 0

    def __len__(self) -> int:
        return self._end - self._first

    def add(self, row: int) -> None:
        self._rows[self._end % len(self._rows)] = row
        self._end += 1

    def forget_oldest(self) -> None:
        self._first += 1

    def pick(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows at these places, taken modulo the length."""
        return self._rows[(self._first + places % len(self)) % len(self._rows)]


class Transitions:
    """Up to ``size`` transitions; a new one takes the place of the oldest.

    Rows are written through NumPy and read as tensors of the same memory, so neither a step nor a
    batch costs a loop in Python. It stays in main memory; batches are sent to the device.

    Args:
        size: Rows at most.
        state: Shape of a stored observation.
        actions: Numbers of an action.
    """

    def __init__(self, size: int, state: tuple[int, ...], actions: int) -> None:
        at_least(size, 1, "learner.buffer_size")
        self.size = size
        self.added = 0
        """Rows ever written; the newest is at ``(added - 1) % size``."""
        self._rows: dict[str, NDArray[Any]] = {
            "state": np.zeros((size, *state), np.float32),
            "next_state": np.zeros((size, *state), np.float32),
            "action": np.zeros((size, actions), np.float32),
            "reward": np.zeros(size, np.float32),
            "terminated": np.zeros(size, np.float32),
            "task": np.zeros(size, np.int64),
        }
        self._columns = {name: torch.from_numpy(rows) for name, rows in self._rows.items()}
        self._of_task: dict[int, _Queue] | None = None
        """Where each task's rows are; kept from the first draw on that asks for it."""

    def __len__(self) -> int:
        return min(self.added, self.size)

    def add(
        self,
        state: NDArray[Any],
        action: NDArray[Any],
        reward: float,
        next_state: NDArray[Any],
        terminated: bool,
        task: int,
    ) -> None:
        """Write one transition."""
        slot, rows = self.added % self.size, self._rows
        if self._of_task is not None:
            if self.added >= self.size:
                self._of_task[int(rows["task"][slot])].forget_oldest()
            self._queue(self._of_task, task).add(slot)
        rows["state"][slot], rows["next_state"][slot] = state, next_state
        rows["action"][slot], rows["reward"][slot] = action, reward
        rows["terminated"][slot], rows["task"][slot] = terminated, task
        self.added += 1

    def clear(self) -> None:
        """Forget everything."""
        self.added, self._of_task = 0, None

    def sample(self, n: int, generator: torch.Generator) -> dict[str, Tensor]:
        """So many transitions, drawn uniformly and independently, on the generator's device."""
        device = generator.device
        places = torch.randint(len(self), (n,), generator=generator, device=device).cpu()
        return self._take(places, device)

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
            for row in np.arange(self.added - len(self), self.added) % self.size:
                self._queue(self._of_task, int(self._rows["task"][row])).add(int(row))
        device = generator.device
        drawn = torch.randint(2**62, (n,), generator=generator, device=device).cpu().numpy()
        present = [queue for task in tasks if (queue := self._of_task.get(task))]
        rows = np.empty(n, np.int64)
        for place, queue in enumerate(present):
            share = slice((place - number * n) % len(present), None, len(present))
            rows[share] = queue.pick(drawn[share])
        return self._take(torch.from_numpy(rows), device)

    def _queue(self, queues: dict[int, _Queue], task: int) -> _Queue:
        if task not in queues:
            queues[task] = _Queue(self.size)
        return queues[task]

    def _take(self, places: Tensor, device: torch.device) -> dict[str, Tensor]:
        return {
            name: column.index_select(0, places).to(device)
            for name, column in self._columns.items()
        }

    def newest(self, n: int) -> dict[str, Tensor]:
        """The last ``n`` transitions (or all, if there are fewer), in the order of time."""
        n = min(n, len(self))
        places = torch.arange(self.added - n, self.added) % self.size
        return {name: column[places] for name, column in self._columns.items()}

    def state_dict(self) -> dict[str, Any]:
        """The filled rows in their places, and the counter."""
        # A copy, since saving a view would save all of the tensor under it.
        filled = {name: column[: len(self)].clone() for name, column in self._columns.items()}
        return {"added": self.added, "columns": filled}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` gave."""
        self.added, self._of_task = state["added"], None
        for name, column in self._columns.items():
            column[: len(self)] = state["columns"][name].cpu()
