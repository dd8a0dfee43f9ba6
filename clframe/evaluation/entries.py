"""Measured cells of a table whose other cells are unknown, in arrays that only grow.

The cost of appending depends only on what is appended. Taking the state costs nothing: it is a view
of the entries so far, which never change. A long stream that measures few tasks a row stays small.
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
    """Places and values, in the order in which they were appended.

    Args:
        dimensions: How many numbers a place has.

    >>> entries = Entries(2)
    >>> entries.append([(0, 3), (1, 2)], [0.5, 0.25])
    >>> entries.places.tolist(), entries.values.tolist()
    ([[0, 3], [1, 2]], [0.5, 0.25])
    """

    def __init__(self, dimensions: int) -> None:
        self._places: Ints = np.empty((16, dimensions), np.int64)
        self._values: Floats = np.empty(16, np.float64)
        self._count = 0

    @property
    def places(self) -> Ints:
        """One row per value."""
        return self._places[: self._count]

    @property
    def values(self) -> Floats:
        """The values."""
        return self._values[: self._count]

    def append(self, places: Any, values: Any) -> None:
        """Add values at these places."""
        end = self._count + len(values)
        if not len(values):
            return
        if end > len(self._values):
            # New arrays, so that views of the old ones stay what they are.
            room = max(end, 2 * len(self._values))
            self._places = np.resize(self._places, (room, self._places.shape[1]))
            self._values = np.resize(self._values, room)
        self._places[self._count : end] = places
        self._values[self._count : end] = values
        self._count = end

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Views of what has been appended so far."""
        import torch  # a result is loaded without it

        return {"places": torch.from_numpy(self.places), "values": torch.from_numpy(self.values)}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Restore what :meth:`state_dict` gave."""
        places, values = state["places"].cpu().numpy(), state["values"].cpu().numpy()
        self._count = 0
        self.append(places, values)
