"""What there is to build tasks from: arenas, fixtures and objects with their affordances."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Site:
    """A named place of a fixture or object.

    Args:
        relation: The predicate for being there, ``on`` or ``in``.
        words: The place in an instruction.
        accepts: Kinds of objects that go there.
        capacity: How many of them at once.
        door: What must be open to reach it: the ``site`` (a drawer), its ``fixture``, or None.
    """

    relation: str
    words: str
    accepts: frozenset[str]
    capacity: int
    door: str | None = None


@dataclass(frozen=True)
class Category:
    """A category of fixtures or movable objects.

    Args:
        name: The category as BDDL names it.
        words: The thing in an instruction.
        radius: Radius in meters of the circle it needs on a table; our own rough estimate.
        kind: For objects: what sites look at when they accept.
        accepts: For objects: kinds that can stand on it, one at a time.
        sites: Named places of it.
        slots: For fixtures: where in an arena it may stand.
        door: Whether the thing itself opens.
        device: Whether it is turned on and off.
    """

    name: str
    words: str
    radius: float
    kind: str = "fixture"
    accepts: frozenset[str] = frozenset()
    sites: Mapping[str, Site] = field(default_factory=dict)
    slots: tuple[str, ...] = ()
    door: bool = False
    device: bool = False


@dataclass(frozen=True)
class Arena:
    """A workspace: its names in BDDL, its usable rectangle, and what may stand on it."""

    name: str
    prefix: str
    problem: str
    workspace: str
    category: str
    area: tuple[float, float, float, float]
    slots: Mapping[str, tuple[float, float, float]]
    fixtures: tuple[str, ...]
    objects: tuple[str, ...]


@dataclass(frozen=True)
class Catalog:
    """All arenas, fixtures and objects by name."""

    arenas: Mapping[str, Arena]
    fixtures: Mapping[str, Category]
    objects: Mapping[str, Category]

    def arena_of(self, problem_name: str) -> Arena | None:
        """The arena whose problems bear that name."""
        return next((a for a in self.arenas.values() if a.problem == problem_name), None)


@cache
def shipped_catalog() -> Catalog:
    """The catalog of LIBERO's categories that is part of this package.

    >>> site = shipped_catalog().fixtures["flat_stove"].sites["cook_region"]
    >>> site.relation, site.words
    ('on', 'the stove')
    """
    file = resources.files("clframe.worlds.bddl") / "data" / "libero_catalog.json"
    data: dict[str, dict[str, dict[str, Any]]] = json.loads(file.read_text(encoding="utf-8"))
    return Catalog(
        {name: _arena(name, entry) for name, entry in data["arenas"].items()},
        {name: _category(name, entry) for name, entry in data["fixtures"].items()},
        {name: _category(name, entry) for name, entry in data["objects"].items()},
    )


def _arena(name: str, entry: dict[str, Any]) -> Arena:
    x0, y0, x1, y1 = entry["area"]
    slots = {slot: (x, y, yaw) for slot, (x, y, yaw) in entry["slots"].items()}
    return Arena(
        name,
        entry["prefix"],
        entry["problem"],
        entry["workspace"],
        entry["category"],
        (x0, y0, x1, y1),
        slots,
        tuple(entry["fixtures"]),
        tuple(entry["objects"]),
    )


def _category(name: str, entry: dict[str, Any]) -> Category:
    sites = {
        site: Site(
            data["relation"],
            data["words"],
            frozenset(data["accepts"]),
            data["capacity"],
            data.get("door"),
        )
        for site, data in entry.get("sites", {}).items()
    }
    return Category(
        name,
        entry["words"],
        entry["radius"],
        entry.get("kind", "fixture"),
        frozenset(entry.get("accepts", ())),
        sites,
        tuple(entry.get("slots", ())),
        entry.get("door", False),
        entry.get("device", False),
    )
