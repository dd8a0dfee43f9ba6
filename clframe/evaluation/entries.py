"""Measured cells of a sparse table, in append-only arrays.

The cost of appending depends only on what is appended. Taking the state is free: it is a view of
the entries so far, which never change. A long stream that measures few tasks per row stays small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Entries:
    """Positions and values, in the order in which they were appended.

    Args:
        dimensions: Number of indices of a position.

    >>> entries = Entries(2)
    >>> entries.append([(0, 3), (1, 2)], [0.5, 0.25])
    >>> entries.places.tolist(), entries.values.tolist()
    ([[0, 3], [1, 2]], [0.5, 0.25])
    """

    def __init__(self, dimensions: int) -> None:
        self._positions: Ints = np.empty((16, dimensions), np.int64)
        self._values: Floats = np.empty(16, np.float64)
        self._count = 0

    @property
    def places(self) -> Ints:
        """One row of indices per value."""
        return self._positions[: self._count]

    @property
    def values(self) -> Floats:
        """The values."""
        return self._values[: self._count]

    def append(self, places: Any, values: Any) -> None:
        """Append values at these positions."""
        end = self._count + len(values)
        if not len(values):
            return
        if end > len(self._values):
            # New arrays, so that views of the old ones do not change.
            room = max(end, 2 * len(self._values))
            self._positions = np.resize(self._positions, (room, self._positions.shape[1]))
            self._values = np.resize(self._values, room)
        self._positions[self._count : end] = places
        self._values[self._count : end] = values
        self._count = end

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return views of the entries so far."""
        import torch  # not needed to load a result

        return {"places": torch.from_numpy(self.places), "values": torch.from_numpy(self.values)}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Restore the state of :meth:`state_dict`."""
        places, values = state["places"].cpu().numpy(), state["values"].cpu().numpy()
        self._count = 0
        self.append(places, values)
