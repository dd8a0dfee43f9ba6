"""What happened, step by step: the last transitions, in memory that is taken once."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clframe.utils.settings import at_least


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
        rows["state"][slot], rows["next_state"][slot] = state, next_state
        rows["action"][slot], rows["reward"][slot] = action, reward
        rows["terminated"][slot], rows["task"][slot] = terminated, task
        self.added += 1

    def clear(self) -> None:
        """Forget everything."""
        self.added = 0

    def sample(self, n: int, generator: torch.Generator) -> dict[str, Tensor]:
        """So many transitions, drawn uniformly and independently, on the generator's device."""
        device = generator.device
        places = torch.randint(len(self), (n,), generator=generator, device=device).cpu()
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
        self.added = state["added"]
        for name, column in self._columns.items():
            column[: len(self)] = state["columns"][name].cpu()
