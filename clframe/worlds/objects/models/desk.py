"""Things of the desk: cutter, pencil, stapler, scissors, tape, notebook, case, clamp, clip."""

from __future__ import annotations

import numpy as np

from clframe.worlds.objects.models import meshes
from clframe.worlds.objects.models.meshes import Points
from clframe.worlds.objects.models.parts import Parts


def paper_cutter(p: Parts, i: int) -> None:
    """Utility knives with a snap-off blade pushed out, lying."""
    length, width, body, slider, out = (
        (0.130, 0.022, "yellow", "black", 0.045),
        (0.125, 0.018, "red", "white", 0.030),
        (0.150, 0.028, "teal", "orange", 0.055),
        (0.115, 0.016, "dark", "lime", 0.038),
    )[i]
    p.place(turn=(0, 0, 26))
    half = width / 2
    p.box((length, width, 0.012), (0, 0, 0.006), body)
    nose = [
        (length / 2, -half),
        (length / 2 + 0.022, -0.30 * width),
        (length / 2 + 0.022, 0.30 * width),
        (length / 2, half),
    ]
    p.cut(nose, 0.009, "steel", (0, 0, 0.0015))
    edge, top = length / 2 + 0.02, 0.27 * width
    blade = [(edge, -top), (edge + out + 0.012, -top), (edge + out, top), (edge, top)]
    p.cut(blade, 0.002, "silver", (0, 0, 0.005))
    for k in range(1, 4):
        x = edge + out * k / 4
        p.box((0.0012, 2.1 * top, 0.001), (x, 0, 0.0072), "gray", (0, 0, 14))
    p.box((0.8 * length, 0.2 * width, 0.002), (0, 0, 0.0122), "black" if body != "dark" else "gray")
    p.box((0.020, 0.55 * width, 0.007), (0.2 * length, 0, 0.015), slider)
    p.can((-length / 2, 0, 0), (-length / 2, 0, 0.012), half, body)


def pencil(p: Parts, i: int) -> None:
    """Pencils, sharpened, most with a rubber."""
    length, thick, body, rubber = (
        (0.165, 0.0048, "yellow", "pink"),
        (0.150, 0.0050, "red", "black"),
        (0.120, 0.0055, "blue", "white"),
        (0.170, 0.0046, "green", "gold"),
        (0.100, 0.0070, "black", "red"),
    )[i]
    p.place((0, 0, thick), (0, 0, 32))
    tip = length / 2
    p.mesh(meshes.sweep(np.array([[-tip, 0, 0], [tip - 0.028, 0, 0]]), thick, 6), body)
    p.tube([(tip - 0.028, 0, 0), (tip - 0.008, 0, 0)], (thick, thick * 0.35), "cream")
    p.tube([(tip - 0.008, 0, 0), (tip, 0, 0)], (thick * 0.35, thick * 0.06), "dark")
    p.can((-tip - 0.012, 0, 0), (-tip, 0, 0), thick * 1.05, "silver" if i != 4 else "gold")
    p.rod((-tip - 0.022, 0, 0), (-tip - 0.012, 0, 0), thick * 0.92, rubber)


def stapler(p: Parts, i: int) -> None:
    """Staplers with the jaw open."""
    length, width, body, base = (
        (0.130, 0.032, "red", "black"),
        (0.100, 0.036, "blue", "gray"),
        (0.150, 0.038, "dark", "silver"),
    )[i]
    p.place(turn=(0, 0, 22))
    p.box((length, width, 0.010), (0, 0, 0.005), base)
    p.box((0.025, width * 0.6, 0.002), (length * 0.42, 0, 0.011), "silver")
    back = -0.45 * length
    p.box((0.030, width, 0.028), (back + 0.012, 0, 0.022), base)
    p.place((back * np.cos(np.radians(22)), back * np.sin(np.radians(22)), 0.030), (0, -14, 22))
    p.box((length * 0.94, width * 0.55, 0.010), (length * 0.46, 0, -0.002), "silver")
    outline = [
        (-0.01, 0.0),
        (length * 0.96, 0.0),
        (length * 0.98, 0.010),
        (length * 0.80, 0.022),
        (length * 0.2, 0.024),
        (-0.01, 0.016),
    ]
    p.cut(outline, width * 0.92, body, (0, width * 0.46, 0.004), (90, 0, 0))


def scissors(p: Parts, i: int) -> None:
    """Scissors lying open."""
    blade, loop, grip, angle = (
        (0.090, 0.022, "red", 17),
        (0.115, 0.026, "black", 13),
        (0.060, 0.020, "cyan", 22),
    )[i]
    for side in (-1, 1):
        p.place((0, 0, 0.004 + 0.0025 * (side > 0)), (0, 0, 30 + side * angle))
        shape = [
            (-0.020, -0.006),
            (0.0, -0.0075),
            (blade, side * 0.003),
            (0.0, 0.0075),
            (-0.020, 0.006),
        ]
        p.cut(shape, 0.0025, "silver")
        p.tube([(-0.012, 0, 0.001), (-0.035, -side * 0.006, 0.002)], (0.006, 0.006), grip)
        center = (-0.035 - loop * 0.95, -side * loop * 0.55, 0.002)
        p.ring(loop, 0.0058, grip, center, (0, 0, side * 24), squash=0.72, n=16)
    p.place()
    p.can((0, 0, 0.002), (0, 0, 0.012), 0.0050, "steel")


def tape(p: Parts, i: int) -> None:
    """A roll of brown parcel tape, standing, with a loose end."""
    ring = [(0.038, -0.024), (0.055, -0.024), (0.055, 0.024), (0.038, 0.024), (0.038, -0.024)]
    core = [(0.034, -0.025), (0.0385, -0.025), (0.0385, 0.025), (0.034, 0.025), (0.034, -0.025)]
    p.place((0, 0, 0.055), (90, 0, 28))
    p.turned(ring, "tan", sides=24)
    p.turned(core, "cream", sides=24)
    p.mesh(meshes.stretch(_loose_end, 5, 2), "gold")


def _loose_end(u: Points, v: Points) -> tuple[Points, Points, Points]:
    return 0.055 + 0.006 * u, 0.010 - 0.062 * u, 0.048 * v - 0.024


def notebook(p: Parts, i: int) -> None:
    """A spiral pad, a bound book with a ribbon and a school book with a label."""
    width, depth, thick, cover, trim = (
        (0.105, 0.148, 0.014, "blue", "silver"),
        (0.130, 0.190, 0.022, "maroon", "gold"),
        (0.150, 0.200, 0.010, "yellow", "white"),
    )[i]
    p.place(turn=(0, 0, 20))
    p.box((width, depth, thick - 0.004), (0, 0, thick / 2), "white")
    p.box((width + 0.004, depth + 0.006, 0.002), (0, 0, thick - 0.001), cover)
    p.box((width + 0.004, depth + 0.006, 0.002), (0, 0, 0.001), cover)
    if i == 0:
        for k in range(8):
            y = (k - 3.5) * depth / 8.5
            p.ring(0.011, 0.0014, trim, (-width / 2, y, thick / 2), (90, 0, 0), n=10)
        p.box((0.6 * width, 0.030, 0.001), (0.03 * width, 0.2 * depth, thick), "white")
    elif i == 1:
        p.can(
            (-width / 2, -depth / 2, thick / 2),
            (-width / 2, depth / 2, thick / 2),
            thick / 2,
            cover,
        )
        p.box((0.010, depth + 0.008, 0.0015), (0.32 * width, 0, thick), "black")
        p.box((0.5 * width, 0.014, 0.001), (-0.08 * width, 0.2 * depth, thick), trim)
    else:
        p.box((0.016, depth + 0.007, thick + 0.001), (-width / 2, 0, thick / 2), "black")
        p.box((0.6 * width, 0.06, 0.001), (0.06 * width, 0.15 * depth, thick), trim)
        for k in range(3):
            p.box(
                (0.45 * width, 0.003, 0.0014),
                (0.06 * width, 0.15 * depth - 0.014 * (k - 1), thick),
                "navy",
            )


def pencilcase(p: Parts, i: int) -> None:
    """A round zipped case, and a flat box case with pencils looking out."""
    p.place(turn=(0, 0, 18))
    if i == 0:
        p.place((0, 0, 0.034), (0, 0, 18))
        p.rod((-0.070, 0, 0), (0.070, 0, 0), 0.034, "purple")
        for x in (-0.078, 0.078):
            p.can((x - 0.006, 0, 0), (x + 0.006, 0, 0), 0.0345, "pink")
        p.box((0.150, 0.007, 0.004), (0, -0.010, 0.0335), "silver", (18, 0, 0))
        p.box((0.020, 0.010, 0.004), (0.068, -0.014, 0.034), "yellow")
    else:
        p.box((0.200, 0.070, 0.020), (0, 0, 0.010), "green")
        p.box((0.186, 0.056, 0.002), (0, 0, 0.0200), "dark")
        p.box((0.200, 0.070, 0.006), (0, 0.052, 0.046), "lime", (62, 0, 0))
        for k, color in enumerate(("yellow", "red", "sky", "orange")):
            y = -0.019 + 0.012 * k
            p.tube([(-0.085, y, 0.024), (0.060, y, 0.024)], 0.0048, color)
            p.tube([(0.060, y, 0.024), (0.084, y, 0.024)], (0.0048, 0.0006), "cream")


def clamp(p: Parts, i: int) -> None:
    """A spring clamp with orange tips, and a screw clamp."""
    if i == 0:
        p.place((0, 0, 0.010), (0, 0, 15))
        for side in (-1, 1):
            p.cut(
                [
                    (0.000, side * 0.010),
                    (0.055, side * 0.028),
                    (0.095, side * 0.012),
                    (0.098, side * 0.004),
                    (0.084, side * 0.004),
                    (0.055, side * 0.014),
                    (0.000, side * -0.006),
                    (-0.075, side * -0.036),
                    (-0.082, side * -0.024),
                ],
                0.020,
                "dark",
                (0, 0, -0.010 + 0.002 * side),
            )
            p.box((0.024, 0.012, 0.024), (0.094, side * 0.009, 0), "orange", (0, 0, -side * 25))
            p.rod((-0.052, -side * 0.028, 0), (-0.086, -side * 0.034, 0), 0.012, "orange")
        p.can((0.000, 0, -0.015), (0.000, 0, 0.015), 0.011, "silver")
        return
    p.place((0, 0, 0.012), (0, 0, 20))
    frame = [
        (-0.05, -0.045),
        (0.045, -0.045),
        (0.045, -0.030),
        (-0.032, -0.030),
        (-0.032, 0.050),
        (0.045, 0.050),
        (0.045, 0.066),
        (-0.05, 0.066),
    ]
    p.cut(frame, 0.018, "blue", (0, 0, -0.009))
    p.can((0.034, -0.085, 0), (0.034, 0.020, 0), 0.0065, "silver")
    p.can((0.034, 0.018, 0), (0.034, 0.026, 0), 0.013, "steel")
    p.can((0.034, 0.046, 0), (0.034, 0.050, 0), 0.012, "steel")
    p.rod((0.006, -0.082, 0), (0.062, -0.082, 0), 0.0045, "silver")


def u_disk(p: Parts, i: int) -> None:
    """USB sticks: one with its cap next to it, one with a swivel cover."""
    body, trim = (("red", "white"), ("black", "silver"))[i]
    p.place(turn=(0, 0, 28))
    p.box((0.040, 0.019, 0.009), (0, 0, 0.0055), body)
    p.can((-0.020, 0, 0.001), (-0.020, 0, 0.010), 0.0095, body)
    p.box((0.014, 0.0125, 0.0050), (0.027, 0, 0.0055), "silver")
    for y in (-0.0032, 0.0032):
        p.box((0.0028, 0.0026, 0.0008), (0.029, y, 0.0080), "black")
    if i == 0:
        p.box((0.022, 0.012, 0.0008), (-0.002, 0, 0.0102), trim)
        p.box((0.017, 0.019, 0.009), (0.046, -0.020, 0.0050), body, (0, 0, 35))
        p.ring(0.005, 0.0012, "silver", (-0.032, 0, 0.005), n=10)
    else:
        for z in (0.0003, 0.0107):
            p.box((0.036, 0.0205, 0.0012), (-0.020, 0.009, z), trim, (0, 0, -42))
        p.can((-0.008, 0, 0), (-0.008, 0, 0.0125), 0.0032, "dark")
        p.ball(0.0015, (0.010, 0.005, 0.0102), "lime")
