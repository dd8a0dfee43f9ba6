"""Where a camera stands and which rays its pixels send out."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.errors import SettingError

Vector = Sequence[float] | NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class View:
    """A pinhole camera in the world.

    Attributes:
        position: of the pinhole, (3,) meters.
        rotation: (3, 3), its columns the directions right, up and backward in the world, which is
            the form of MuJoCo's `cam_xmat`.
        fovy: the vertical opening angle in degrees.

    >>> View.look_at((0, 0, 2), (0, 0, 0), up=(0, 1, 0)).rotation.round(6).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    position: NDArray[np.float64]
    rotation: NDArray[np.float64]
    fovy: float = 45.0

    def __post_init__(self) -> None:
        position = np.array(self.position, dtype=np.float64)
        rotation = np.array(self.rotation, dtype=np.float64)
        if position.shape != (3,) or rotation.shape not in ((3, 3), (9,)):
            raise SettingError(
                f"A view has a position of 3 and a rotation of 3x3 numbers, not of shapes "
                f"{position.shape} and {rotation.shape}."
            )
        if not 0 < self.fovy < 180:
            raise SettingError(f"The opening angle fovy={self.fovy} must be between 0 and 180.")
        object.__setattr__(self, "position", position)
        object.__setattr__(self, "rotation", rotation.reshape(3, 3))

    def axes(self) -> NDArray[np.float64]:
        """The directions right, down and ahead in the world, as rows."""
        right, up, backward = self.rotation.T
        return np.stack([right, -up, -backward])

    @classmethod
    def look_at(
        cls, position: Vector, target: Vector, fovy: float = 45.0, up: Vector = (0, 0, 1)
    ) -> View:
        """A camera at `position` with `target` in the middle of its image.

        A camera that looks along `up` has no upright; its image is then turned so that the
        world's y axis (or x axis, looking along y) points up.
        """
        eye, aim = np.asarray(position, dtype=np.float64), np.asarray(target, dtype=np.float64)
        backward = eye - aim
        length = float(np.linalg.norm(backward))
        if not length > 0:
            raise SettingError(f"A camera at {eye.tolist()} cannot look at the same point.")
        backward /= length
        for upright in (up, (0, 1, 0), (1, 0, 0)):
            right = np.cross(np.asarray(upright, dtype=np.float64), backward)
            size = float(np.linalg.norm(right))
            if size > 1e-6:
                break
        right /= size
        return cls(eye, np.stack([right, np.cross(backward, right), backward], axis=1), fovy)

    @classmethod
    def of_camera(cls, model: Any, data: Any, camera: str | int) -> View:
        """The view of a camera of an MJCF model, as its data stands (after `mj_forward`)."""
        number = camera_id(model, camera)
        return cls(data.cam_xpos[number], data.cam_xmat[number], float(model.cam_fovy[number]))


def camera_id(model: Any, camera: str | int) -> int:
    """The number of a model's camera given by name or number."""
    if not isinstance(camera, str) and 0 <= camera < model.ncam:
        return int(camera)
    names = [model.cam(number).name for number in range(model.ncam)]
    if isinstance(camera, str) and camera in names:
        return names.index(camera)
    choices = ", ".join(name or str(number) for number, name in enumerate(names)) or "none"
    raise SettingError(f"The model has no camera {camera!r}; its cameras: {choices}.")


@functools.lru_cache(maxsize=64)
def pixel_rays(width: int, height: int, fovy: float) -> NDArray[np.float64]:
    """Rays through the pixel centers in the camera's frame, (3, height * width), row by row.

    They are not of unit length: each goes one meter along the optical axis, so that the ray's
    parameter at a hit is the depth of that pixel.
    """
    half = math.tan(math.radians(fovy) / 2)
    x = ((np.arange(width) + 0.5) / width * 2 - 1) * half * width / height
    y = (1 - (np.arange(height) + 0.5) / height * 2) * half
    rays = np.stack([np.tile(x, height), np.repeat(y, width), -np.ones(width * height)])
    rays.flags.writeable = False  # shared by all cameras of this size
    return rays


def pixel_size(height: int, fovy: float) -> float:
    """The side of a pixel one meter ahead, in meters."""
    return 2 * math.tan(math.radians(fovy) / 2) / height


TILE = 8
"""Pixels along the side of a square whose rays are cast one after the other."""


@functools.lru_cache(maxsize=64)
def tiles(width: int, height: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The pixels of an image tile by tile, and the place of each pixel in this order.

    >>> order, place = tiles(16, 8)
    >>> order[[0, 8, 64]].tolist(), place[[16, 8]].tolist()
    ([0, 16, 8], [8, 64])
    """
    row, column = np.divmod(np.arange(width * height), width)
    order = np.lexsort((column, row, column // TILE, row // TILE))
    place = np.argsort(order)
    order.flags.writeable = place.flags.writeable = False  # shared by all cameras of this size
    return order, place


@functools.lru_cache(maxsize=64)
def plane_places(width: int, height: int, fovy: float) -> NDArray[np.float64]:
    """Where pixels are, tile by tile, one meter ahead: to the right and down, (2, n)."""
    right, up, _ = pixel_rays(width, height, fovy)[:, tiles(width, height)[0]]
    places = np.stack([right, -up])
    places.flags.writeable = False  # shared by all cameras of this size
    return places
