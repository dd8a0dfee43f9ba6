"""Between colors as they are written or stored and amounts of light, which add up."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

STEPS = 4096
"""Brightness levels that are distinguished before an image is stored in 256."""
KNEE = 0.88
"""Brightness from which highlights are compressed instead of clipped."""
WHITE = 2.0
"""Brightness that is stored as 255."""


def to_linear(color: ArrayLike) -> NDArray[np.float32]:
    """The amounts of light of colors in 0..1 by the sRGB standard (IEC 61966-2-1).

    >>> to_linear([0.0, 0.5, 1.0]).round(3).tolist()
    [0.0, 0.21400000154972076, 1.0]
    """
    c = np.asarray(color, dtype=np.float32)
    curve = ((np.maximum(c, 0.0) + 0.055) / 1.055) ** 2.4
    return np.where(c <= 0.04045, c / 12.92, curve).astype(np.float32)


def from_linear(light: ArrayLike) -> NDArray[np.float32]:
    """The inverse of `to_linear`."""
    x = np.asarray(light, dtype=np.float32)
    curve = 1.055 * np.maximum(x, 0.0031308) ** (1 / 2.4) - 0.055
    return np.where(x <= 0.0031308, 12.92 * x, curve).astype(np.float32)


def compress(light: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Bend brightness above the knee smoothly so that `WHITE` and more become 1."""
    rise, run = 1 - KNEE, WHITE - KNEE
    t = np.clip((light - KNEE) / run, 0.0, 1.0)
    # Leaves the knee with slope 1, arrives at 1 with slope 0 and never falls in between.
    bent = KNEE + rise * (1 - (1 - t) ** (run / rise))
    return np.where(light > KNEE, bent, light)


@functools.cache
def _compressed() -> NDArray[np.uint8]:
    """The stored value of each level of brightness up to `WHITE`."""
    return np.round(from_linear(compress(np.linspace(0, WHITE, STEPS))) * 255).astype(np.uint8)


@functools.cache
def _clipped() -> NDArray[np.uint8]:
    """The stored value of each level of brightness up to 1."""
    return np.round(from_linear(np.linspace(0, 1, STEPS)) * 255).astype(np.uint8)


def _look_up(light: NDArray[np.float32], table: NDArray[np.uint8], top: float) -> NDArray[np.uint8]:
    scaled = light * np.float32((STEPS - 1) / top)
    scaled += np.float32(0.5)
    # Before it is cast: the integer of a brightness beyond all integers would be a negative one.
    np.minimum(scaled, np.float32(STEPS - 1), out=scaled)
    return table.take(scaled.astype(np.intp), mode="clip")


def encode(light: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Light as bytes of an image, highlights compressed."""
    return _look_up(light, _compressed(), WHITE)


def encode_exactly(light: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Light as bytes of an image, clipped at 1: the inverse of `decode`."""
    return _look_up(light, _clipped(), 1.0)


@functools.cache
def _light_of_byte() -> NDArray[np.float32]:
    return to_linear(np.arange(256) / 255)


def decode(rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The light of the bytes of an image."""
    return _light_of_byte()[rgb]
