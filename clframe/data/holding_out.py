"""Choice of test samples: decided for each sample by a hash of its own name.

A split that is drawn over a whole folder moves samples between its sides whenever the folder grows.
A model is then tested on samples that it was trained on. Here the side of a sample depends only on
its key, the seed and the share, with one exception: if every sample of a group (a class, or a
class within a domain) would be on the same side, its outermost sample goes to the other side. No
rule without memory can do better: if each sample's side depends on the sample alone, some groups
have no test samples.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Hashable, Sequence

import torch
from torch import Tensor


def position(key: str, seed: int) -> float:
    """Return a sample's position in 0..1; it is a test sample below the share of the test set.

    >>> position("cat/1.png", seed=0) == position("cat/1.png", seed=0)
    True
    >>> position("cat/1.png", seed=0) == position("cat/1.png", seed=1)
    False
    """
    # File systems spell accents in two ways; the folder may come from another machine.
    text = f"{seed}\0{unicodedata.normalize('NFC', key)}"
    digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def held_out(
    keys: Sequence[str], groups: Sequence[Hashable], fraction: float, seed: int
) -> tuple[Tensor, list[Hashable]]:
    """Choose the samples to test on.

    Samples with the same key are on the same side. A group with two keys or more has samples on
    both sides.

    Args:
        keys: The identity of each sample, independent of other data: its path, its content.
        groups: The group of each sample.
        fraction: The share to test on.
        seed: Seed of the split.

    Returns:
        Whether each sample is tested on, and the groups with one key, which have no test sample.
    """
    hashes = [position(key, seed) for key in keys]
    of_group: dict[Hashable, list[int]] = {}
    for number, group in enumerate(groups):
        of_group.setdefault(group, []).append(number)
    tested = torch.tensor([hashed < fraction for hashed in hashes])
    alone: list[Hashable] = []
    for group, members in of_group.items():
        own = [hashes[number] for number in members]
        low, high = min(own), max(own)
        if low == high:
            alone.append(group)
            tested[members] = False
        elif low >= fraction:
            tested[[number for number in members if hashes[number] == low]] = True
        elif high < fraction:
            tested[[number for number in members if hashes[number] == high]] = False
    return tested, alone


def numbered(labels: Sequence[Hashable]) -> list[str]:
    """Number the samples of each class: the first of its class, the second, and so on.

    >>> numbered(["cat", "dog", "cat"])
    ['cat 0', 'dog 0', 'cat 1']
    """
    seen: Counter[Hashable] = Counter()
    names = []
    for label in labels:
        names.append(f"{label} {seen[label]}")
        seen[label] += 1
    return names
