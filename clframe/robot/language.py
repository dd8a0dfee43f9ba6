"""Instructions as vectors, without a language model."""

from __future__ import annotations

import re
import zlib
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIZE = 32
_REACH = 2.0
"""Words further apart than this have positions with little in common."""


def embed(text: str, size: int = SIZE) -> NDArray[np.float32]:
    """Return a vector made of fixed random word vectors by :func:`sentence_vector`.

    The vector of a word depends only on its letters, so it never changes, and instructions that
    share words are close to each other.

    >>> float(embed("push the button") @ embed("push the mug")) / SIZE > 0.3
    True
    >>> bool((embed("Push the mug.") == embed("push the mug")).all())
    True
    >>> float(embed("the cup on the pot") @ embed("the pot on the cup")) / SIZE < 0.98
    True
    """
    words = re.findall(r"[a-z0-9]+", text.lower())
    if not words:
        return np.zeros(size, np.float32)
    return sentence_vector(np.stack([_word(word, size) for word in words]))


def task_name(index: int) -> str:
    """Return the text that LIBERO's "one-hot" embedding encodes instead of the instruction.

    >>> task_name(4)
    'Task 5'
    """
    return f"Task {index + 1}"


def sentence_vector(words: NDArray[Any]) -> NDArray[np.float32]:
    """Combine word vectors in order into one vector with numbers of about unit size.

    Half of it is their sum, which does not depend on the order. The other half is the sum of the
    vectors rotated by position: fractional power encoding (Plate, 1995; Frady et al., 2021), where
    positions i and j have exp(-(i - j)² / (2 · 2²)) in common. So "the left bowl on the right bowl"
    differs from its reverse, and one more word changes little.

    Args:
        words: One row per word.
    """
    total = _unit(words.sum(0)) + _unit(_turned(words).sum(0))
    return np.asarray(_unit(total) * np.sqrt(words.shape[1]), np.float32)


@cache
def _word(word: str, size: int) -> NDArray[np.float64]:
    return np.random.default_rng(zlib.crc32(word.encode())).standard_normal(size)


@cache
def _speeds(half: int) -> NDArray[np.float64]:
    """Return normally distributed angles, so that similarity of positions falls as a bell curve.

    They are evenly spread quantiles, because a few random ones would be a poor sample.
    """
    normal = NormalDist()
    return np.array([normal.inv_cdf((rank + 0.5) / half) for rank in range(half)]) / _REACH


def _turned(words: NDArray[Any]) -> NDArray[Any]:
    """Rotate each row by its position, in planes of a number and the one half a row later."""
    half = words.shape[1] // 2
    angles = np.arange(len(words))[:, None] * _speeds(half)
    first, second = words[:, :half], words[:, half : 2 * half]
    cosine, sine = np.cos(angles), np.sin(angles)
    rest = words[:, 2 * half :]
    return np.hstack([first * cosine - second * sine, first * sine + second * cosine, rest])


def _unit(vector: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-6))
