"""Basket and tray: open containers that stand on the table and are filled from above."""

from __future__ import annotations

from clframe.worlds.tabletop.assets.shapes import Asset, Geom, Place, walls


def basket() -> Asset:
    """A woven basket with a darker rim."""
    straw, rim = (0.76, 0.58, 0.34), (0.50, 0.34, 0.18)
    x, y, top, wall = 0.100, 0.090, 0.085, 0.008
    geoms = (
        Geom("box", (x, y, 0.005), (0, 0, 0.005), straw, texture="weave"),
        *walls((x, y), 0.0, top, wall, straw, texture="weave"),
        *(
            Geom("box", (0.005, y + wall, 0.004), (s * (x + wall), 0, top), rim, solid=False)
            for s in (-1, 1)
        ),
        *(
            Geom("box", (x + wall, 0.005, 0.004), (0, s * (y + wall), top), rim, solid=False)
            for s in (-1, 1)
        ),
    )
    inside = Place(
        (0, 0, 0.053),
        (x, y, 0.048),
        spots=((-0.045, 0.0), (0.045, 0.0), (0.0, 0.045), (0.0, -0.045)),
    )
    return Asset(geoms, 0.8, 0.0, top, 0.115, places={"contain_region": inside})


def wooden_tray() -> Asset:
    """A low tray with handles at its ends."""
    wood = (0.62, 0.42, 0.24)
    x, y, top, wall = 0.125, 0.095, 0.032, 0.008
    geoms = (
        Geom("box", (x, y, 0.005), (0, 0, 0.005), wood, texture="wood"),
        *walls((x, y), 0.0, top, wall, (0.52, 0.34, 0.18), texture="wood"),
    )
    inside = Place(
        (0, 0, 0.053),
        (x, y, 0.048),
        spots=((-0.060, 0.0), (0.060, 0.0), (0.0, 0.050), (0.0, -0.050)),
    )
    return Asset(geoms, 0.9, 0.0, top, 0.13, places={"contain_region": inside})


CONTAINERS: dict[str, Asset] = {"basket": basket(), "wooden_tray": wooden_tray()}
