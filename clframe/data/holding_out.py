"""Which samples are tested on: decided for each one by a hash of its own name.

A split that is drawn over a whole folder moves samples between its sides whenever the folder grows,
and a model is then tested on samples that it was trained on. Here the side of a sample depends on
its key, the seed and the share, and on nothing else, with one exception: a group (a class, or a
class within a domain) of which every sample would be on the same side gives its outermost sample to
the other one. No rule without memory can do better: if each sample's side depends on the sample
alone, some groups have nothing to test on.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Hashable, Sequence

import torch
from torch import Tensor


def position(key: str, seed: int) -> float:
    """Return where in 0..1 a sample is; below the share of the test set it is tested on.

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
        keys: What identifies each sample, whatever else is in the data: its path, its content.
        groups: What each sample's group is called.
        fraction: The share to test on.
        seed: Of the split.

    Returns:
        Whether each sample is tested on, and the groups with one key, none of which is.
    """
    places = [position(key, seed) for key in keys]
    of_group: dict[Hashable, list[int]] = {}
    for number, group in enumerate(groups):
        of_group.setdefault(group, []).append(number)
    tested = torch.tensor([place < fraction for place in places])
    alone: list[Hashable] = []
    for group, members in of_group.items():
        found = [places[number] for number in members]
        low, high = min(found), max(found)
        if low == high:
            alone.append(group)
            tested[members] = False
        elif low >= fraction:
            tested[[number for number in members if places[number] == low]] = True
        elif high < fraction:
            tested[[number for number in members if places[number] == high]] = False
    return tested, alone


def numbered(labels: Sequence[Hashable]) -> list[str]:
    """Name samples of which no more is known: the first of its class, the second, and so on.

    >>> numbered(["cat", "dog", "cat"])
    ['cat 0', 'dog 0', 'cat 1']
    """
    seen: Counter[Hashable] = Counter()
    names = []
    for label in labels:
        names.append(f"{label} {seen[label]}")
        seen[label] += 1
    return names
