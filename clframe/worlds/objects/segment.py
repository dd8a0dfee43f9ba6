"""The frames of one segment as arrays, as both sources deliver them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Segment:
    """Some frames of one factor and segment, ordered by instance and then by time.

    Attributes:
        rgb: Color, uint8 of shape (n, 3, H, W).
        instance: Index of the instance in `catalog.instances()`, int16 of shape (n,).
        frame: Number of the frame within its instance and segment, from 0, int16 of shape (n,).
        depth: Millimeters along the optical axis, 0 where unknown, uint16 of shape (n, H, W).
        mask: 1 where the object is seen, uint8 of shape (n, H, W).
        box: Corners x0, y0, x1, y1 of the object in pixels, int16 of shape (n, 4).
    """

    rgb: NDArray[np.uint8]
    instance: NDArray[np.int16]
    frame: NDArray[np.int16]
    depth: NDArray[np.uint16] | None = None
    mask: NDArray[np.uint8] | None = None
    box: NDArray[np.int16] | None = None

    def __len__(self) -> int:
        return len(self.rgb)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that are there, by name."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in arrays.items() if array is not None}

    @staticmethod
    def join(parts: Sequence[Segment]) -> Segment:
        """Several parts one after the other; an array that one of them lacks is left out."""
        arrays = [part.arrays() for part in parts]
        shared = [name for name in arrays[0] if all(name in others for others in arrays)]
        return Segment(**{name: np.concatenate([one[name] for one in arrays]) for name in shared})
