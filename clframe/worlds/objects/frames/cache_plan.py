"""What a source of frames will put where: sections of rows, and the work that fills them.

Both sources (rendered and official) describe themselves as a :class:`Plan`; the cache, the workers
and the streams know nothing else about them. Making a plan loads and renders nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

TRAIN, VALIDATION, TEST = range(3)
SPLITS = ("train", "validation", "test")

FARTHEST = 32767
"""Millimeters of depth that are distinguished: torch holds depth in 16 signed bits."""

Job = dict[str, Any]
"""Some rows' work as plain values: ``kind``, ``start``, ``count`` and what the kind needs."""

Bad = list[tuple[int, str]]
"""Rows that could not be filled, each with the sentence that says why."""


@dataclass(frozen=True)
class Section:
    """The rows of one segment of a factor, or of one batch of the challenge."""

    group: str
    number: int
    start: int
    stop: int

    @property
    def name(self) -> str:
        """Name of its record in the cache."""
        return f"{self.group}-{self.number}"

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, eq=False)
class Plan:
    """All frames of a source, by row.

    Attributes:
        key: Name of the cache folder: the same key means the same content.
        words: What this data is, for the output and the records.
        verb: What filling is called, for the progress bar.
        arrays: Element type and shape of one row of each array, by name.
        sections: By group (a factor, or ``mixture``) and number, in order of rows.
        instance: Of each row, as an index into the catalog.
        split: Of each row, an index into :data:`SPLITS`.
        jobs: The work of a section, in portions of a second or so.
    """

    key: str
    words: str
    verb: str
    arrays: Mapping[str, tuple[str, tuple[int, ...]]]
    sections: Mapping[tuple[str, int], Section]
    instance: NDArray[np.int16]
    split: NDArray[np.uint8]
    jobs: Callable[[Section], list[Job]]

    def __len__(self) -> int:
        return len(self.instance)

    def numbers(self, group: str) -> list[int]:
        """The sections there are of a group."""
        return [number for name, number in self.sections if name == group]


def split_frames(n: int) -> NDArray[np.uint8]:
    """Share n frames of one clip over train, validation and test as 8:1:1.

    Held-out frames are spread evenly over the clip and are inside it, so that every one has a
    learned neighbor in time, as with the official random split. Fewer than three frames have no
    validation, a single one only trains.

    >>> split_frames(10).tolist()
    [0, 0, 1, 0, 0, 0, 0, 2, 0, 0]
    >>> [split_frames(n).tolist() for n in (1, 2, 3)]
    [[0], [0, 2], [1, 0, 2]]
    """
    split = np.full(n, TRAIN, np.uint8)
    each = max(1, round(n / 10))
    if n >= 3:
        split[((np.arange(each) + 0.25) * n / each).astype(int)] = VALIDATION
    if n >= 2:
        split[((np.arange(each) + 0.75) * n / each).astype(int)] = TEST
    return split
