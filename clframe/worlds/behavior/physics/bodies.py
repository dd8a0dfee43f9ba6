"""Bodies for things of any category: what is carried, as primitives that one hand can hold.

The world is a scale model: furniture shrinks to what stands on a table, and what is carried has
the size of what a hand takes. A category's body follows from its use in the activity and from the
word of its name; nothing is made for one activity.
"""

from __future__ import annotations

from colorsys import hsv_to_rgb
from math import atan2, hypot, pi, tan
from zlib import crc32

from clframe.worlds.behavior.categories import lemma
from clframe.worlds.tabletop.assets import Asset, Geom, Grip, Place
from clframe.worlds.tabletop.assets.shapes import Color, ring

_FLAT = (
    *("book", "notebook", "magazine", "newspaper", "folder", "document", "card", "tile", "paper"),
    *("plywood", "envelope", "mail", "laptop", "hardback", "textbook", "videodisk", "tissue"),
    *("jigsaw_puzzle", "board_game", "wallet", "painting", "portrait", "clipboard", "package"),
)
_ROUND = (
    *("bottle", "can", "jar", "candle", "cup", "mug", "glass", "vase", "pop", "tube", "beer"),
    *("flashlight", "wineglass", "soda", "catsup", "perfume", "shampoo", "canned_food", "battery"),
    *("lotion", "juice", "pitcher", "kettle", "press", "lamp", "candlestick", "firework"),
)
_PLATES = ("plate", "saucer", "platter", "dish", "tray")
_BOWLS = ("bowl", "saucepan", "caldron", "bucket", "basket", "tupperware")
_EIGHT = tuple(pi / 4 * n for n in range(8))
_MASS = 0.04


def color_of(category: str, light: float = 0.8) -> Color:
    """A color of a category's own, the same in every activity.

    >>> color_of("apple.n.01") == color_of("apple.n.01"), color_of("apple.n.01") == color_of("pear")
    (True, False)
    """
    number = crc32(category.encode())
    return hsv_to_rgb(number % 997 / 997, 0.45 + number // 997 % 40 / 100, light)


def _words(category: str) -> tuple[str, ...]:
    word = lemma(category)
    return (word, word.split("__", maxsplit=1)[0], word.rpartition("_")[2])


def plain(category: str) -> Asset:
    """A thing that need not hold anything: of the shape its name says, else a box or a cylinder.

    >>> plain("book.n.02").geoms[0].kind, plain("bottle__of__beer.n.01").geoms[0].kind
    ('box', 'cylinder')
    """
    words = _words(category)
    if any(word in _FLAT for word in words):
        return _box(category, (0.032, 0.023, 0.011))
    if any(word in _ROUND for word in words):
        return _cylinder(category, 0.022, 0.030)
    if any(word in _PLATES for word in words):
        return plate(category, 0.030)
    if any(word in _BOWLS for word in words):
        return tub(category, 0.026)
    kind = crc32(lemma(category).encode()) % 4
    if kind == 0:
        return _cylinder(category, 0.025, 0.020)
    return _box(
        category, ((0.026, 0.020, 0.019), (0.021, 0.021, 0.021), (0.034, 0.018, 0.015))[kind - 1]
    )


def _box(category: str, half: tuple[float, float, float]) -> Asset:
    x, y, z = half
    label = color_of(category, 0.55)
    geoms = (
        Geom("box", half, color=color_of(category)),
        Geom("box", (0.6 * x, 0.5 * y, 0.0006), (0, 0, z), label, solid=False),
        Geom("box", (0.0006, 0.6 * y, 0.5 * z), (x, 0, 0), label, solid=False),
    )
    grip = Grip("across", 2 * y, 0.0, yaws=(pi / 2,) if x > 1.3 * y else (pi / 2, 0.0))
    return Asset(geoms, _MASS, z, 2 * z, hypot(x, y), grip)


def _cylinder(category: str, radius: float, half: float) -> Asset:
    label = color_of(category, 0.55)
    geoms = (
        Geom("cylinder", (radius, half), color=color_of(category)),
        Geom("cylinder", (radius + 0.0008, 0.4 * half), color=label, solid=False),
        Geom("cylinder", (0.6 * radius, 0.0006), (0, 0, half), label, solid=False),
    )
    grip = Grip("across", 2 * radius, max(0.0, half - 0.022), side=0.0)
    return Asset(geoms, _MASS, half, 2 * half, radius, grip)


def plate(category: str, flat: float) -> Asset:
    """A plate with a low slanted rim, for things on top of it.

    Args:
        category: Whose color.
        flat: Radius of the even part.
    """
    edge, height, wall = flat + 0.014, 0.020, 0.005
    color = color_of(category)
    geoms = (
        Geom("cylinder", (flat + 0.004, 0.004), (0, 0, 0.004), color),
        *ring(8, (flat, 0.005), (edge, height), wall, color_of(category, 0.6)),
    )
    side = (flat - 0.004) / 2**0.5
    top = Place((0, 0, 0.008), (side, side, 0.0))
    grip = Grip("rim", wall, height - 0.006, reach=edge - 0.004, yaws=_EIGHT)
    return Asset(geoms, 0.10, 0.0, height, edge + wall + 0.004, grip, places={"top": top})


def tub(category: str, foot: float) -> Asset:
    """An open vessel that can be carried by its rim.

    Args:
        category: Whose color.
        foot: Inner radius at the foot.
    """
    top, height, wall = foot + 0.010, 0.046, 0.005
    geoms = (
        Geom("cylinder", (foot + wall, 0.004), (0, 0, 0.004), color_of(category)),
        Geom("cylinder", (foot, 0.0005), (0, 0, 0.0085), color_of(category, 0.5), solid=False),
        *ring(8, (foot, 0.004), (top, height), wall, color_of(category)),
    )
    lean, deep = atan2(top - foot, height), 0.013
    reach = top + wall / 2 - deep * tan(lean)
    grip = Grip("rim", wall, height - deep, reach=reach, yaws=_EIGHT, lean=lean, side=height - deep)
    side = foot / 2**0.5
    inside = Place((0, 0, 0.048), (side + 0.008, side + 0.008, 0.040))
    return Asset(geoms, 0.08, 0.0, height, top + wall + 0.004, grip, places={"inside": inside})
