"""The small pieces of surface that rays see, and vectors stored as three rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass
class Patches:
    """What n rays see. Vectors are stored as (3, n), which NumPy works through fastest.

    Attributes:
        geom: the number of each patch's geom.
        points: its place in the world; float64, since shadows are decided by small distances.
        normals: of unit length, towards the eye.
        towards_eye: of unit length.
        size: the side of the square that the ray stands for, in meters.
    """

    geom: NDArray[np.int32]
    points: NDArray[np.float64]
    normals: Floats
    towards_eye: Floats
    size: Floats


def dot(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Scalar products of vectors (3, n)."""
    return np.asarray(a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


def length(vectors: NDArray[Any]) -> NDArray[Any]:
    """Lengths of vectors (3, n)."""
    return np.asarray(np.sqrt(dot(vectors, vectors)))
