"""Bowls, plates, mugs, pots and pans: things that hold other things or stand on a plate."""

from __future__ import annotations

from math import atan2, pi, tan

from clframe.worlds.tabletop.assets.shapes import Asset, Color, Geom, Grip, ring

_BLACK: Color = (0.10, 0.10, 0.12)
_WHITE: Color = (0.93, 0.92, 0.88)
_STEEL: Color = (0.62, 0.63, 0.66)
_EIGHT = tuple(pi / 4 * n for n in range(8))


def bowl(color: Color, inside: Color) -> Asset:
    """An open bowl; its origin is at its foot, so that what is in it is above it."""
    foot, top, height, wall = 0.036, 0.047, 0.046, 0.005
    geoms = (
        Geom("cylinder", (foot + wall, 0.004), (0, 0, 0.004), color),
        Geom("cylinder", (foot, 0.0005), (0, 0, 0.0085), inside, solid=False),
        *ring(8, (foot, 0.004), (top, height), wall, color),
    )
    lean = atan2(top - foot, height)
    deep = 0.013  # below the rim
    reach = top + wall / 2 - deep * tan(lean)
    grip = Grip("rim", wall, height - deep, reach=reach, yaws=_EIGHT, lean=lean, side=height - deep)
    return Asset(geoms, 0.12, 0.0, height, top + wall + 0.004, grip)


def plate(color: Color, rim: Color) -> Asset:
    """A flat plate with a low slanted rim that can be pinched or dragged."""
    flat, edge, height, wall = 0.058, 0.074, 0.020, 0.005
    geoms = (
        Geom("cylinder", (flat + 0.004, 0.004), (0, 0, 0.004), color),
        Geom("cylinder", (flat - 0.02, 0.0004), (0, 0, 0.0083), rim, solid=False),
        *ring(8, (flat, 0.005), (edge, height), wall, rim),
    )
    grip = Grip("rim", wall, height - 0.006, reach=edge - 0.004, yaws=_EIGHT)
    return Asset(geoms, 0.18, 0.0, height, edge + wall + 0.004, grip)


def ramekin() -> Asset:
    """A small straight-walled dish, filled to just below its rim so that a bowl can stand on it."""
    radius, height = 0.042, 0.040
    geoms = (
        Geom("cylinder", (radius, height / 2), (0, 0, height / 2), (0.86, 0.80, 0.70)),
        Geom("cylinder", (radius + 0.001, 0.004), (0, 0, height - 0.005), _WHITE, solid=False),
        Geom(
            "cylinder",
            (radius - 0.006, 0.0006),
            (0, 0, height),
            (0.55, 0.40, 0.30),
            solid=False,
        ),
    )
    grip = Grip("across", 2 * radius, height - 0.018)
    return Asset(geoms, 0.2, 0.0, height, radius, grip)


def mug(color: Color, band: Color | None = None) -> Asset:
    """A mug whose handle points along +x."""
    radius, height = 0.037, 0.082
    geoms = [
        Geom("cylinder", (radius, height / 2), (0, 0, height / 2), color),
        Geom(
            "cylinder",
            (radius - 0.005, 0.0006),
            (0, 0, height),
            (0.20, 0.14, 0.11),
            solid=False,
        ),
    ]
    for z in (0.022, 0.062):
        geoms.append(Geom("box", (0.012, 0.005, 0.005), (radius + 0.010, 0, z), color))
    geoms.append(Geom("box", (0.005, 0.005, 0.025), (radius + 0.022, 0, 0.042), color))
    if band is not None:
        geoms.append(Geom("cylinder", (radius + 0.0008, 0.020), (0, 0, 0.021), band, solid=False))
    grip = Grip("across", 2 * radius, height - 0.022, yaws=(pi / 2, pi / 3, 2 * pi / 3), side=0.046)
    return Asset(tuple(geoms), 0.2, 0.0, height, radius + 0.02, grip)


def moka_pot() -> Asset:
    """A stove-top coffee maker: wide base, waist, jug with spout, handle along +x."""
    geoms = (
        Geom("cylinder", (0.042, 0.028), (0, 0, 0.028), _STEEL),
        Geom("cylinder", (0.036, 0.003), (0, 0, 0.058), (0.45, 0.45, 0.48), solid=False),
        Geom("cylinder", (0.035, 0.030), (0, 0, 0.085), _STEEL),
        Geom("cylinder", (0.036, 0.003), (0, 0, 0.117), (0.50, 0.51, 0.54)),
        Geom("sphere", (0.009,), (0, 0, 0.126), _BLACK, solid=False),
        Geom("box", (0.014, 0.006, 0.006), (0.048, 0, 0.105), _BLACK),
        Geom("box", (0.006, 0.006, 0.028), (0.060, 0, 0.083), _BLACK),
        Geom("box", (0.010, 0.006, 0.004), (-0.040, 0, 0.110), _STEEL, (0, 0.5, 0), solid=False),
    )
    grip = Grip("across", 0.070, 0.092, yaws=(pi / 2, pi / 3, 2 * pi / 3), side=0.085)
    return Asset(geoms, 0.3, 0.0, 0.126, 0.058, grip)


def frying_pan() -> Asset:
    """A pan whose handle points along +x; its origin is at the middle of its foot."""
    flat, edge, height, wall = 0.066, 0.076, 0.032, 0.005
    start = edge + wall
    geoms = (
        Geom("cylinder", (flat + 0.004, 0.004), (0, 0, 0.004), _BLACK),
        Geom("cylinder", (flat, 0.0005), (0, 0, 0.0085), (0.22, 0.22, 0.24), solid=False),
        *ring(8, (flat, 0.004), (edge, height), wall, _BLACK),
        Geom("box", (0.060, 0.009, 0.006), (start + 0.056, 0, 0.034), (0.28, 0.20, 0.16)),
    )
    grip = Grip("handle", 0.018, 0.034, reach=start + 0.075, yaws=(pi / 2,))
    return Asset(geoms, 0.22, 0.0, 0.040, 0.09, grip)


VESSELS: dict[str, Asset] = {
    "akita_black_bowl": bowl(_BLACK, (0.22, 0.20, 0.20)),
    "white_bowl": bowl(_WHITE, (0.80, 0.80, 0.78)),
    "plate": plate((0.90, 0.90, 0.90), (0.75, 0.20, 0.18)),
    "glazed_rim_porcelain_ramekin": ramekin(),
    "porcelain_mug": mug(_WHITE),
    "red_coffee_mug": mug((0.75, 0.10, 0.10)),
    "white_yellow_mug": mug(_WHITE, (0.95, 0.78, 0.12)),
    "moka_pot": moka_pot(),
    "chefmate_8_frypan": frying_pan(),
}
