"""Clips of OpenLORIS-Object, and what the parts of a path say about the images in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from clframe.worlds.objects import catalog

MIXTURE = "mixture"
"""Group of the challenge's batches."""

SPLIT_FOLDERS = {
    "train": "train",
    "validation": "validation",
    "val": "validation",
    "test": "test",
}
"""The split that a folder's name stands for."""

_SUFFIXES = (".jpg", ".jpeg", ".png")
_SEGMENT = re.compile(r"(?:segment|task)[_-]?0*(\d+)", re.IGNORECASE)
_BATCH = re.compile(r"batch[_-]?0*(\d+)", re.IGNORECASE)
_TREES = {"rgb": "rgb", "color": "rgb", "depth": "depth", "mask": "mask", "masks": "mask"}
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Clip:
    """The frames of one instance in one section and split, in order of time.

    Attributes:
        group: A factor, or :data:`MIXTURE`.
        number: Of the segment or batch, from 1.
        split: train, validation or test.
        instance: Index in the catalog.
        folder: Of the color images, relative to the root.
        names: Of the files.
        depth: Folder of the depth images, if there is such a tree.
        mask: Folder of the masks, if there is such a tree.
        listed: Its files come from a list and may not be there.
    """

    group: str
    number: int
    split: str
    instance: int
    folder: str
    names: tuple[str, ...]
    depth: str | None = None
    mask: str | None = None
    listed: bool = False


@dataclass(frozen=True)
class Place:
    """What the parts of a path say."""

    tree: str
    split: str | None
    factor: str | None
    segment: int | None
    batch: int | None
    key: tuple[str, ...]


def place_of(folder: str) -> Place:
    """What the parts of a relative path say about the images in it.

    >>> place = place_of("depth/train/pixel/segment07/cup_01")
    >>> place.tree, place.split, place.factor, place.segment
    ('depth', 'train', 'pixel', 7)
    >>> place.key == place_of("train/pixel/segment07/cup_01").key
    True
    """
    tree, split, factor, segment, batch = "rgb", None, None, None, None
    key = []
    for part in PurePosixPath(folder).parts:
        word = part.lower()
        if word in _TREES:
            tree = _TREES[word]
            continue
        key.append(part)
        split = SPLIT_FOLDERS.get(word, split)
        factor = word if word in catalog.FACTORS else factor
        if match := _SEGMENT.fullmatch(word):
            segment = int(match[1])
        elif match := _BATCH.fullmatch(word):
            batch = int(match[1])
    return Place(tree, split, factor, segment, batch, tuple(key))


def images_of(files: Iterable[str]) -> list[str]:
    """The names that an image has; hidden files are none."""
    return [name for name in files if name.lower().endswith(_SUFFIXES) and not name.startswith(".")]


def natural(names: Iterable[str]) -> tuple[str, ...]:
    """Names in the order people count in.

    >>> natural(["task10", "task9", "task1"])
    ('task1', 'task9', 'task10')
    """
    plain = sorted(names)
    if len({len(name) for name in plain}) <= 1:  # then both orders are one
        return tuple(plain)
    return tuple(
        sorted(plain, key=lambda n: [int(p) if p.isdigit() else p for p in _DIGITS.split(n)])
    )
