"""One image with depth and what is seen where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clframe.errors import SettingError


@dataclass
class Frame:
    """What a camera saw.

    Attributes:
        depth: float32 (H, W), meters along the optical axis, 0 where nothing is hit.
        geom: int32 (H, W), the number of the geom seen, -1 where nothing is.
        colors: uint8 (H, W, 3), or None when only geometry was asked for; read it as `rgb`.
    """

    depth: NDArray[np.float32]
    geom: NDArray[np.int32]
    colors: NDArray[np.uint8] | None = None

    @property
    def rgb(self) -> NDArray[np.uint8]:
        """The image, uint8 (H, W, 3)."""
        if self.colors is None:
            raise SettingError("This frame has no colors, since it was rendered with rgb=False.")
        return self.colors

    def mask(self, geoms: int | Iterable[int]) -> NDArray[np.bool_]:
        """Where one of these geoms is seen, (H, W)."""
        return np.isin(self.geom, list(geoms) if isinstance(geoms, Iterable) else [geoms])
