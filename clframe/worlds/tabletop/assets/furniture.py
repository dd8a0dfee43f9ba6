"""Fixtures without moving parts: wine rack, desk caddy, shelf."""

from __future__ import annotations

from clframe.worlds.tabletop.assets.shapes import Asset, Geom, Place, walls

_WOOD = (0.60, 0.42, 0.26)
_DARK = (0.42, 0.27, 0.15)


def wine_rack() -> Asset:
    """A low rack: two frames with a V on top, in which a bottle lies along y."""
    geoms = [Geom("box", (0.055, 0.085, 0.006), (0, 0, 0.006), _DARK, texture="wood")]
    for y in (-0.055, 0.055):
        geoms.append(Geom("box", (0.055, 0.008, 0.022), (0, y, 0.030), _WOOD, texture="wood"))
        for sign in (-1, 1):
            geoms.append(
                Geom(
                    "box",
                    (0.036, 0.008, 0.006),
                    (sign * 0.030, y, 0.066),
                    _WOOD,
                    (0, -sign * 0.6, 0),
                    texture="wood",
                )
            )
    top = Place((0, 0, 0.055), (0.055, 0.085, 0.0), lying=True, along=(0, 1, 0))
    return Asset(tuple(geoms), 1.0, 0.0, 0.09, 0.10, places={"top_region": top})


def desk_caddy() -> Asset:
    """A box with four compartments: two in the middle (front, back), one at either side.

    LIBERO stands it half turned, so that its -x side is the front of the scene.
    """
    half, wall, top = 0.100, 0.005, 0.070
    aisle = 0.046  # inner half width of the middle compartments
    geoms = (
        Geom("box", (half, half, 0.004), (0, 0, 0.004), _DARK, texture="wood"),
        *walls((half, half), 0.0, top, wall, _WOOD, texture="wood"),
        Geom(
            "box", (half, wall / 2, top / 2), (0, aisle + wall / 2, top / 2), _DARK, texture="wood"
        ),
        Geom(
            "box", (half, wall / 2, top / 2), (0, -aisle - wall / 2, top / 2), _DARK, texture="wood"
        ),
        Geom("box", (wall / 2, aisle, top / 2), (0, 0, top / 2), _DARK, texture="wood"),
    )
    middle = (half + wall / 2) / 2
    side = (half + aisle + wall) / 2
    width = (half - aisle - wall) / 2
    deep = (half - wall / 2) / 2
    places = {
        "front_contain_region": Place((-middle, 0, 0.06), (deep, aisle, 0.06), along=(0, 1, 0)),
        "back_contain_region": Place((middle, 0, 0.06), (deep, aisle, 0.06), along=(0, 1, 0)),
        "left_contain_region": Place((0, side, 0.06), (half, width, 0.06)),
        "right_contain_region": Place((0, -side, 0.06), (half, width, 0.06)),
    }
    return Asset(geoms, 2.0, 0.0, top, 0.14, places=places)


def two_layer_shelf() -> Asset:
    """A shelf open in front (-y): space under the board, space on it, and a top."""
    x, y, t = 0.130, 0.090, 0.006
    low, top = 0.145, 0.290
    geoms = (
        *(
            Geom("box", (t, y, top / 2), (s * (x + t), 0, top / 2), _DARK, texture="wood")
            for s in (-1, 1)
        ),
        Geom("box", (x, t, top / 2), (0, y - t, top / 2), _DARK, texture="wood"),
        Geom("box", (x, y, t), (0, 0, low), _WOOD, texture="wood"),
        Geom("box", (x + 2 * t, y, t), (0, 0, top + t), _WOOD, texture="wood"),
    )
    gap = (low - t) / 2
    front = (0.0, -1.0, 0.0)
    places = {
        "bottom_region": Place((0, -0.01, gap), (x, y, gap), entry=front, along=(0, 1, 0)),
        "top_region": Place(
            (0, -0.01, low + t + (top - low - t) / 2),
            (x, y, (top - low - t) / 2),
            entry=front,
            along=(0, 1, 0),
        ),
        "top_side": Place((0, 0, top + 2 * t), (x, y, 0.0)),
    }
    return Asset(geoms, 4.0, 0.0, top + 2 * t, 0.16, places=places)


FURNITURE: dict[str, Asset] = {
    "wine_rack": wine_rack(),
    "desk_caddy": desk_caddy(),
    "wooden_two_layer_shelf": two_layer_shelf(),
}
