"""Instructions as vectors, without a language model."""

from __future__ import annotations

import re
import zlib

import numpy as np
from numpy.typing import NDArray

SIZE = 32


def embed(text: str, size: int = SIZE) -> NDArray[np.float32]:
    """The sum of a fixed random vector for every word, scaled to numbers of about unit size.

    The vector of a word follows from its letters alone, so it is the same everywhere and for ever,
    and instructions that share words are near each other. Word order is lost.

    >>> float(embed("push the button") @ embed("push the mug")) / SIZE > 0.3
    True
    >>> bool((embed("Push the mug.") == embed("push the mug")).all())
    True
    """
    total = np.zeros(size)
    for word in re.findall(r"[a-z0-9]+", text.lower()):
        total += np.random.default_rng(zlib.crc32(word.encode())).standard_normal(size)
    length = float(np.linalg.norm(total))
    return (total * np.sqrt(size) / length if length else total).astype(np.float32)
