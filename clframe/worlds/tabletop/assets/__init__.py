"""A body for every category that LIBERO's 130 task files use, made of primitives."""

from __future__ import annotations

from clframe.errors import nearest
from clframe.worlds.bddl import BDDLError
from clframe.worlds.tabletop.assets.arenas import ARENAS, Arena
from clframe.worlds.tabletop.assets.containers import CONTAINERS
from clframe.worlds.tabletop.assets.furniture import FURNITURE
from clframe.worlds.tabletop.assets.machines import MACHINES
from clframe.worlds.tabletop.assets.packages import PACKAGES
from clframe.worlds.tabletop.assets.shapes import Asset, Geom, Grip, Joint, Part, Place
from clframe.worlds.tabletop.assets.vessels import VESSELS

OBJECTS: dict[str, Asset] = {**VESSELS, **PACKAGES, **CONTAINERS}
FIXTURES: dict[str, Asset] = {**FURNITURE, **MACHINES}

__all__ = [
    "ARENAS",
    "FIXTURES",
    "OBJECTS",
    "Arena",
    "Asset",
    "Geom",
    "Grip",
    "Joint",
    "Part",
    "Place",
    "find",
]


def find(name: str, category: str, *, fixture: bool) -> Asset:
    """The asset of an instance.

    Args:
        name: The instance, for the error.
        category: Its category as the task file says.
        fixture: Whether it is declared among the fixtures.

    Raises:
        BDDLError: If there is no model of that category.

    >>> find("plate_1", "plate", fixture=False).height
    0.02
    """
    models = FIXTURES if fixture else OBJECTS
    if category not in models:
        kind = "fixture" if fixture else "object"
        sentence = (
            f"There is no model of the {kind} {name} - {category}; {nearest(category, models)}"
        )
        raise BDDLError(sentence)
    return models[category]
