"""What OpenLORIS-Object holds: 121 instances of 40 categories, four factors at three levels.

The order of the instances is the official label order of the authors' benchmark (She et al.,
"OpenLORIS-Object: A robotic vision dataset and benchmark for lifelong deep learning", ICRA 2020):
the index of an instance is its label. The first 19 categories, 69 instances, are the edition of the
IROS 2019 challenge.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache

_COUNTS = {
    "bottle": 4,
    "bowl": 5,
    "corkscrew": 1,
    "cottonswab": 2,
    "cup": 9,
    "cushion": 3,
    "glasses": 4,
    "knife": 1,
    "ladle": 4,
    "mask": 5,
    "paper_cutter": 4,
    "pencil": 5,
    "plasticbag": 3,
    "plug": 4,
    "pot": 1,
    "scissors": 3,
    "stapler": 3,
    "thermometer": 3,
    "toy": 5,
    "nail_clippers": 3,
    "bracelet": 3,
    "comb": 3,
    "umbrella": 3,
    "socks": 3,
    "toothpaste": 3,
    "wallet": 3,
    "headphone": 3,
    "key": 3,
    "battery": 2,
    "mouse": 1,
    "pencilcase": 2,
    "tape": 1,
    "chopsticks": 3,
    "notebook": 3,
    "spoon": 3,
    "tissue": 3,
    "clamp": 2,
    "hat": 2,
    "u_disk": 2,
    "swimming_glasses": 1,
}

CATEGORIES = tuple(_COUNTS)
"""The 40 categories in the order in which their instances are labeled."""

N_CHALLENGE_INSTANCES = 69
"""Instances of the first edition (IROS 2019 challenge): the first 69 of the list."""

FACTORS = ("illumination", "occlusion", "pixel", "clutter")
"""The four factors in the order of the paper's 12-task sequence."""

LEVELS = {
    "illumination": ("strong", "normal", "weak"),
    "occlusion": ("0%", "25%", "50%"),
    "pixel": (">200", "30-200", "<30"),
    "clutter": ("simple", "normal", "complex"),
}
"""Names of level 1, 2 and 3 of every factor (Table II of the paper)."""

SHORT = {
    "illumination": ("strong", "normal", "weak"),
    "occlusion": ("open", "quarter", "half"),
    "pixel": ("large", "medium", "small"),
    "clutter": ("simple", "normal", "complex"),
}
"""The levels as plain words, for the names of tasks."""

SEGMENTS = tuple(range(1, 10))
"""Segments 1 to 9 of a factor: three views of level 1, then of level 2, then of level 3."""


@cache
def instances() -> tuple[str, ...]:
    """The 121 instances in label order, e.g. ``bottle_01``.

    >>> len(instances()), instances()[:2], instances().index("cup_10")
    (121, ('bottle_01', 'bottle_02'), 20)
    """
    names: list[str] = []
    for category, count in _COUNTS.items():
        numbers = range(1, count + 1)
        # The cups are numbered 01 to 08 and 10: there is no cup_09.
        names += [f"{category}_{10 if category == 'cup' and n == 9 else n:02d}" for n in numbers]
    return tuple(names)


def category_of(instance: str) -> str:
    """The category of an instance: all before the last underscore.

    >>> category_of("paper_cutter_01")
    'paper_cutter'
    """
    return instance.rpartition("_")[0]


def level_of(segment: int) -> int:
    """The level (1 to 3) that a segment (1 to 9) shows.

    >>> [level_of(segment) for segment in SEGMENTS]
    [1, 1, 1, 2, 2, 2, 3, 3, 3]
    """
    return (segment - 1) // 3 + 1


def segments_of(level: int) -> tuple[int, ...]:
    """The three segments of a level.

    >>> segments_of(2)
    (4, 5, 6)
    """
    return tuple(range(3 * level - 2, 3 * level + 1))


def digest(names: Sequence[str]) -> str:
    """Eight letters that stand for a list of names, for folder names.

    >>> digest(["a", "b"]) == digest(["a", "b"]) != digest(["b", "a"])
    True
    """
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:8]
