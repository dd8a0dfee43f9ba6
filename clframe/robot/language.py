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
"""Words further apart than this are in places that have little in common."""


def embed(text: str, size: int = SIZE) -> NDArray[np.float32]:
    """A fixed random vector for every word, put together by :func:`sentence_vector`.

    The vector of a word follows from its letters alone, so it is the same everywhere and for ever,
    and instructions that share words are near each other.

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
    """What LIBERO's "one-hot" embedding encodes in place of the instruction.

    >>> task_name(4)
    'Task 5'
    """
    return f"Task {index + 1}"


def sentence_vector(words: NDArray[Any]) -> NDArray[np.float32]:
    """One vector, with numbers of about unit size, of vectors of words in their order.

    Half of it is their sum, which is the same in any order. The other half is the sum of vectors
    that are turned by their place: fractional power encoding (Plate, 1995; Frady et al., 2021),
    where the places i and j have exp(-(i - j)² / (2 · 2²)) in common. So "the left bowl on the
    right bowl" is not its reverse, and one more word changes little.

    Args:
        words: A row for each word.
    """
    total = _unit(words.sum(0)) + _unit(_turned(words).sum(0))
    return np.asarray(_unit(total) * np.sqrt(words.shape[1]), np.float32)


@cache
def _word(word: str, size: int) -> NDArray[np.float64]:
    return np.random.default_rng(zlib.crc32(word.encode())).standard_normal(size)


@cache
def _speeds(half: int) -> NDArray[np.float64]:
    """Angles per place, normally distributed, so that what places have in common falls as a bell.

    They are taken at evenly spread ranks, since few would be a poor sample of random ones.
    """
    normal = NormalDist()
    return np.array([normal.inv_cdf((rank + 0.5) / half) for rank in range(half)]) / _REACH


def _turned(words: NDArray[Any]) -> NDArray[Any]:
    """Each row turned by its place, in the planes of a number and one half a row further."""
    half = words.shape[1] // 2
    angles = np.arange(len(words))[:, None] * _speeds(half)
    first, second = words[:, :half], words[:, half : 2 * half]
    cosine, sine = np.cos(angles), np.sin(angles)
    rest = words[:, 2 * half :]
    return np.hstack([first * cosine - second * sine, first * sine + second * cosine, rest])


def _unit(vector: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-6))
