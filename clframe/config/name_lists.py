"""The catalog as lists: the names of kinds that ``clframe list`` accepts."""

from __future__ import annotations

from clframe.config.groups import SETTINGS
from clframe.config.name_catalog import Catalog, Item


def kinds_by_plural(catalog: Catalog) -> dict[str, str]:
    """Return the kinds by the names that ``clframe list`` accepts, in its order."""
    first, last = ("stream", "strategy"), ("experiment", *SETTINGS)
    others = [kind for kind in catalog.items if kind not in (*first, *last)]
    return {plural(kind): kind for kind in (*first, *others, *last)}


def all_names(catalog: Catalog) -> list[str]:
    """Return all names, sorted."""
    return sorted({name for items in catalog.items.values() for name in items})


def items_named(catalog: Catalog, name: str) -> list[Item]:
    """Return the items with this name, of any kind."""
    return [items[name] for items in catalog.items.values() if name in items]


def plural(kind: str) -> str:
    """Return the name of all items of a kind.

    >>> [plural(kind) for kind in ("stream", "strategy", "trainer")]
    ['streams', 'strategies', 'trainer']
    """
    return kind if kind in SETTINGS else {"strategy": "strategies"}.get(kind, f"{kind}s")
