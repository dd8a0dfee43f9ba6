"""Groceries and books: boxes, cans, cartons and bottles."""

from __future__ import annotations

from math import pi

from clframe.worlds.tabletop.assets.shapes import Asset, Color, Geom, Grip


def box(half: tuple[float, float, float], color: Color, label: Color) -> Asset:
    """A box lying flat, gripped across its shorter side (y), or along it where it fits."""
    x, y, z = half
    geoms = (
        Geom("box", half, color=color),
        Geom("box", (0.7 * x, 0.6 * y, 0.0006), (0, 0, z), label, solid=False),
        Geom("box", (0.0006, 0.7 * y, 0.6 * z), (x, 0, 0), label, solid=False),
    )
    both = 2 * x < 0.085
    grip = Grip("across", 2 * x if both else 2 * y, 0.0, yaws=(pi / 2, 0.0) if both else (pi / 2,))
    return Asset(geoms, 0.12, z, 2 * z, (x * x + y * y) ** 0.5, grip)


def can(height: float, color: Color, label: Color) -> Asset:
    """A tin with a colored label between two metal ends."""
    radius, half = 0.032, height / 2
    geoms = (
        Geom("cylinder", (radius, half), color=(0.72, 0.72, 0.74)),
        Geom("cylinder", (radius + 0.0008, 0.86 * half), color=color, solid=False),
        Geom("cylinder", (radius + 0.0014, 0.28 * half), (0, 0, 0.1 * half), label, solid=False),
    )
    grip = Grip("across", 2 * radius, half - 0.022, side=0.0)
    return Asset(geoms, 0.2, half, height, radius, grip, long=True)


def carton(color: Color, label: Color) -> Asset:
    """A drinks carton with a gabled top, gripped across its body."""
    half, shoulder = 0.029, 0.055
    geoms = (
        Geom("box", (half, half, shoulder), color=color),
        Geom("box", (half + 0.0006, half + 0.0006, 0.022), (0, 0, -0.008), label, solid=False),
        Geom("box", (half, 0.019, 0.0035), (0, 0.0125, 0.066), color, (-0.82, 0, 0), solid=False),
        Geom("box", (half, 0.019, 0.0035), (0, -0.0125, 0.066), color, (0.82, 0, 0), solid=False),
        Geom("box", (half, 0.003, 0.006), (0, 0, 0.081), label),
    )
    grip = Grip("across", 2 * half, shoulder - 0.016, yaws=(0.0, pi / 2), side=0.0)
    return Asset(geoms, 0.22, shoulder, 0.142, half * 1.42, grip)


def bottle(
    body: Color, label: Color, cap: Color, *, radius: float = 0.026, half: float = 0.052
) -> Asset:
    """A bottle with shoulders and cap; the origin is at the middle of its body."""
    neck = 0.014
    geoms = (
        Geom("cylinder", (radius, half), color=body),
        Geom("cylinder", (radius + 0.0008, 0.5 * half), (0, 0, -0.1 * half), label, solid=False),
        Geom("cylinder", (0.72 * radius, 0.006), (0, 0, half + 0.006), body, solid=False),
        Geom("cylinder", (0.46 * radius, neck), (0, 0, half + 0.012 + neck), cap),
    )
    grip = Grip("across", 2 * radius, half - 0.018, side=0.0)
    return Asset(geoms, 0.2, half, 2 * half + 0.012 + 2 * neck, radius, grip, long=True)


def wine_bottle() -> Asset:
    """A tall bottle that can be carried by its neck or laid down."""
    radius, half, neck = 0.026, 0.058, 0.030
    glass, foil = (0.10, 0.22, 0.12), (0.50, 0.08, 0.12)
    geoms = (
        Geom("cylinder", (radius, half), color=glass),
        Geom(
            "cylinder",
            (radius + 0.0008, 0.45 * half),
            (0, 0, -0.2 * half),
            (0.92, 0.88, 0.74),
            solid=False,
        ),
        Geom("cylinder", (0.75 * radius, 0.007), (0, 0, half + 0.007), glass, solid=False),
        Geom("cylinder", (0.0115, neck), (0, 0, half + neck), foil),
    )
    grip = Grip("across", 2 * radius, half - 0.018, side=0.0)
    return Asset(geoms, 0.25, half, 2 * half + 2 * neck, radius, grip, long=True)


def book(cover: Color, pages: Color) -> Asset:
    """A book standing on its foot: thin along x, spine towards -y."""
    x, y, z = 0.015, 0.042, 0.055
    geoms = (
        Geom("box", (x, y, z), color=cover),
        Geom("box", (x - 0.003, 0.0006, z - 0.004), (0, y, 0), pages, solid=False),
        Geom("box", (x - 0.003, y - 0.004, 0.0006), (0, 0, z), pages, solid=False),
        Geom("box", (x + 0.0006, 0.5 * y, 0.25 * z), (0, 0, 0.3 * z), pages, solid=False),
    )
    grip = Grip("across", 2 * x, z - 0.020, yaws=(0.0,), side=0.0)
    return Asset(geoms, 0.2, z, 2 * z, 0.045, grip)


PACKAGES: dict[str, Asset] = {
    "cookies": box((0.050, 0.036, 0.020), (0.70, 0.16, 0.14), (0.95, 0.85, 0.55)),
    "cream_cheese": box((0.036, 0.020, 0.013), (0.25, 0.45, 0.80), (0.95, 0.95, 0.98)),
    "butter": box((0.036, 0.018, 0.015), (0.95, 0.82, 0.25), (0.85, 0.20, 0.15)),
    "chocolate_pudding": box((0.040, 0.030, 0.015), (0.36, 0.18, 0.10), (0.93, 0.86, 0.74)),
    "alphabet_soup": can(0.095, (0.80, 0.12, 0.10), (0.96, 0.94, 0.88)),
    "tomato_sauce": can(0.080, (0.70, 0.18, 0.08), (0.20, 0.50, 0.18)),
    "milk": carton((0.93, 0.94, 0.96), (0.15, 0.35, 0.75)),
    "orange_juice": carton((0.97, 0.60, 0.10), (0.20, 0.60, 0.22)),
    "ketchup": bottle((0.78, 0.08, 0.06), (0.95, 0.92, 0.85), (0.93, 0.93, 0.93)),
    "bbq_sauce": bottle((0.25, 0.10, 0.06), (0.90, 0.60, 0.12), (0.12, 0.12, 0.12)),
    "salad_dressing": bottle((0.85, 0.85, 0.62), (0.25, 0.55, 0.20), (0.15, 0.45, 0.15)),
    "new_salad_dressing": bottle((0.90, 0.80, 0.55), (0.80, 0.35, 0.15), (0.90, 0.75, 0.10)),
    "wine_bottle": wine_bottle(),
    "black_book": book((0.10, 0.10, 0.12), (0.92, 0.90, 0.82)),
    "yellow_book": book((0.92, 0.76, 0.14), (0.95, 0.93, 0.88)),
}
