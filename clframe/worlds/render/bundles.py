"""Neighboring rays cast together, at what they may meet only.

MuJoCo passes over a geom by its bounds in longitude and latitude, which tell nothing of what is
straight below a camera. Here the bounding boxes of geoms are projected onto the image plane with
the rays of a bundle: most bundles meet a few of a scene's hundred geoms. It is MuJoCo's own code
that casts the rays, so that what they meet is the same to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.render.boxes import Boxes, along, bounds

BUNDLE = 64
"""Rays that are cast together."""
SLACK = 1e-6
"""By how much more than computed a bundle may spread one meter ahead, in meters."""

Out = tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64] | None]
"""Geoms, distances and, if wanted, normals (flat) of rays, to be filled."""


@dataclass(frozen=True, eq=False)
class Fan:
    """Where rays from a point lead, for rays that follow each other in space as in the array.

    Attributes:
        axes: (3, 3), its rows right, down and ahead.
        low: (2, bundles), to the right and down where rays of a bundle are one meter ahead, at
            least; all lead ahead.
        high: the same at most.
    """

    axes: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


class Bundles:
    """Casts neighboring rays into one model.

    Args:
        model: the MuJoCo model.
        mask: MuJoCo's six flags of the geom groups that are seen.
    """

    def __init__(self, model: Any, mask: NDArray[np.uint8]) -> None:
        self.model, self.boxes = model, Boxes(model)
        self._mask = mask
        self._unseen = next((group for group in range(6) if not mask[group]), None)
        self._holders = np.flatnonzero(model.body_geomnum)

    def visible(self) -> NDArray[np.bool_]:
        """Which geoms are in a group that is seen."""
        return np.asarray(self._mask.take(self.model.geom_group, mode="clip") > 0)

    def candidates(
        self, data: Any, origin: NDArray[np.float64], rays: NDArray[np.float64], fan: Fan
    ) -> NDArray[np.bool_] | None:
        """Which geoms (bundles, geoms) each bundle may meet; None where it is not worth asking."""
        if self._unseen is None or len(rays) <= BUNDLE:
            return None
        low, high = fan.low, fan.high
        places = along(fan.axes, origin, self.boxes.corners(data))
        first, last = bounds(places, np.maximum(-low.min(axis=1), high.max(axis=1)))
        apart = (first[0] > high[0, :, None]) | (last[0] < low[0, :, None])
        apart |= (first[1] > high[1, :, None]) | (last[1] < low[1, :, None])
        apart[:, ~self.boxes.bounded] = False
        return np.asarray(~apart & self.visible())

    def cast(
        self,
        data: Any,
        origin: NDArray[np.float64],
        rays: NDArray[np.float64],
        candidates: NDArray[np.bool_],
        out: Out,
    ) -> None:
        """Cast rays (n, 3), each bundle at its candidates."""
        import mujoco

        model, flat, (geom, distance, normal) = self.model, rays.reshape(-1), out
        # Neighboring bundles that may meet the same go together: a call has a price of its own.
        heads = np.flatnonzero(np.append(True, (candidates[1:] != candidates[:-1]).any(axis=1)))
        candidates = candidates[heads]
        begins = (heads * BUNDLE).tolist()
        groups = np.where(candidates, model.geom_group, np.int32(self._unseen or 0))
        # Geoms of a body follow each other. One without candidates is passed over.
        counts = np.add.reduceat(candidates, model.body_geomadr[self._holders], axis=1)
        met: NDArray[np.bool_] = np.greater(counts, 0)
        numbers = np.zeros((len(groups), model.nbody), dtype=np.int32)
        numbers[:, self._holders] = np.where(met, model.body_geomnum[self._holders], 0)
        some: list[bool] = np.asarray(met.any(axis=1)).tolist()
        with self._borrowed() as (group, number):
            for k, (begin, end) in enumerate(zip(begins, [*begins[1:], len(rays)], strict=True)):
                if not some[k]:
                    geom[begin:end], distance[begin:end] = -1, -1.0
                    if normal is not None:
                        normal[3 * begin : 3 * end] = 0.0
                    continue
                group[:] = groups[k]
                number[:] = numbers[k]
                mujoco.mj_multiRay(
                    model, data, origin, flat[3 * begin : 3 * end], self._mask, True, -1,
                    geom[begin:end], distance[begin:end],
                    None if normal is None else normal[3 * begin : 3 * end],
                    end - begin, mujoco.mjMAXVAL,
                )  # fmt: skip

    @contextmanager
    def _borrowed(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """Groups of geoms and their numbers in bodies, to be changed for a while."""
        model = self.model
        fields = (model.geom_group, model.body_geomnum, model.body_bvhadr)
        before = [np.array(field) for field in fields]
        # No body's bounds: testing them takes longer than the few geoms that are left.
        model.body_bvhadr[:] = -1
        try:
            yield fields[0], fields[1]
        finally:
            # Physics finds the model as it was.
            for field, values in zip(fields, before, strict=True):
                field[:] = values


def spread(places: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The least and the largest of places (2, n) of rays in each bundle, (2, bundles)."""
    short = -places.shape[1] % BUNDLE
    if short:  # the last one again
        places = np.concatenate([places, np.repeat(places[:, -1:], short, axis=1)], axis=1)
    bundled = places.reshape(2, -1, BUNDLE)
    return bundled.min(axis=2) - SLACK, bundled.max(axis=2) + SLACK
