"""The small pieces of surface that rays see, and vectors stored as three rows."""

from __future__ import annotations

from collections.abc import Sequence
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


def joined(parts: Sequence[Patches]) -> Patches:
    """Several one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Patches(
        np.concatenate([part.geom for part in parts]),
        np.concatenate([part.points for part in parts], axis=1),
        np.concatenate([part.normals for part in parts], axis=1),
        np.concatenate([part.towards_eye for part in parts], axis=1),
        np.concatenate([part.size for part in parts]),
    )


def dot(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Scalar products of vectors (3, n)."""
    return np.asarray(a[0] * b[0] + a[1] * b[1] + a[2] * b[2])


def length(vectors: NDArray[Any]) -> NDArray[Any]:
    """Lengths of vectors (3, n)."""
    return np.asarray(np.sqrt(dot(vectors, vectors)))
