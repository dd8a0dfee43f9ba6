"""What things of a category can do, and be done to.

Most abilities are read off the roles that categories play in the published activities (what is
opened in one of them can be opened in all); see scripts/make_behavior_data.py.
"""

from __future__ import annotations

import json
from enum import IntEnum
from functools import cache
from importlib import resources


class Can(IntEnum):
    """Abilities of a category, as bits of one number."""

    FIXTURE = 1 << 0
    """Part of a room: it is never carried where ``inroom`` says so."""
    FLOOR = 1 << 1
    MOVABLE = 1 << 26
    """Part of a room, like a chair, but it can be carried."""
    VEHICLE = 1 << 27
    CONTAINER = 1 << 2
    SUBSTANCE = 1 << 3
    OPENABLE = 1 << 4
    TOGGLEABLE = 1 << 5
    SOAKABLE = 1 << 6
    CLOTH = 1 << 7
    BREAKABLE = 1 << 8
    HEATS_INSIDE = 1 << 9
    HEATS_ON_TOP = 1 << 10
    HEATS_ITSELF = 1 << 11
    COOLS = 1 << 12
    WASHES = 1 << 13
    DRIES = 1 << 14
    TAP = 1 << 15
    """Water runs from it while it is toggled on."""
    SLICER = 1 << 16
    CLEANER = 1 << 17
    PRESSES = 1 << 18
    DRIES_BY_AIR = 1 << 19
    SANDS = 1 << 20
    MENDS = 1 << 21
    LOOSE = 1 << 22
    """A substance that any cleaner takes off."""
    STUCK = 1 << 23
    """A substance that only a wet cleaner takes off."""
    MARK = 1 << 24
    """A wrinkle or a scratch."""
    LIQUID = 1 << 25
    """Any other substance: it can be poured, and wiped up."""


@cache
def _table() -> tuple[dict[str, int], frozenset[str]]:
    file = resources.files(__package__) / "data" / "abilities.json"
    lists: dict[str, list[str]] = json.loads(file.read_text(encoding="utf-8"))
    table = dict.fromkeys(lists.pop("category"), 0)
    rooms = frozenset(lists.pop("room"))
    for ability, members in lists.items():
        bit = int(Can[ability.upper()])
        for member in members:
            table[member] |= bit
    return table, rooms


def categories() -> dict[str, int]:
    """Category -> its abilities, for every category of the published activities.

    >>> bool(categories()["electric_refrigerator.n.01"] & Can.COOLS)
    True
    """
    return _table()[0]


def rooms() -> frozenset[str]:
    """The kinds of room that activities name."""
    return _table()[1]


def lemma(category: str) -> str:
    """The word of a category without the number of its sense.

    >>> lemma("half__apple.n.01")
    'half__apple'
    """
    return category.rsplit(".n.", 1)[0]
