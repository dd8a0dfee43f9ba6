"""Things to wear or carry: glasses, mask, bracelet, socks, wallet, hat, goggles, headphone."""

from __future__ import annotations

import numpy as np

from clframe.worlds.objects.models import meshes
from clframe.worlds.objects.models.meshes import Points
from clframe.worlds.objects.models.parts import Parts


def glasses(p: Parts, i: int) -> None:
    """Spectacles and sunglasses, open, standing on their rims and temples."""
    radius, squash, thick, frame, lens, gap = (
        (0.023, 0.80, 0.0028, "black", None, 0.034),
        (0.024, 1.00, 0.0020, "gold", None, 0.034),
        (0.026, 0.85, 0.0030, "dark", "black", 0.036),
        (0.024, 0.75, 0.0032, "red", "violet", 0.034),
    )[i]
    height = radius * squash + thick
    for side in (-1, 1):
        x = side * gap
        p.ring(radius, thick, frame, (x, 0, height), (90, 0, 0), squash, n=16)
        if lens:
            p.egg((radius * 0.97, 0.0012, radius * squash * 0.97), (x, 0, height), lens)
        hinge = (side * (gap + radius), 0.0, height + 0.4 * radius)
        bend = (side * (gap + radius + 0.006), 0.095, height + 0.3 * radius)
        p.rod(hinge, bend, thick * 0.9, frame)
        p.rod(bend, (bend[0], 0.128, 0.004), thick, frame)
    p.tube(
        [
            (-gap + radius * 0.9, 0, height + 0.004),
            (0, -0.002, height + 0.011),
            (gap - radius * 0.9, 0, height + 0.004),
        ],
        thick,
        frame,
    )


def swimming_glasses(p: Parts, i: int) -> None:
    """Goggles with blue eye cups, and their strap behind."""
    for side in (-1, 1):
        p.egg((0.031, 0.013, 0.023), (side * 0.035, -0.004, 0.026), "blue", (0, 0, -side * 12))
        p.egg((0.025, 0.014, 0.017), (side * 0.035, -0.008, 0.026), "cyan", (0, 0, -side * 12))
    p.rod((-0.010, -0.002, 0.028), (0.010, -0.002, 0.028), 0.004, "dark")
    strap = meshes.stretch(_goggle_strap, 15, 2)
    p.mesh(strap, "dark")


def _goggle_strap(u: Points, v: Points) -> tuple[Points, Points, Points]:
    angle = np.pi * (1 - u)
    return 0.066 * np.cos(angle), 0.070 * np.sin(angle), 0.019 + 0.014 * v + 0.016 * np.sin(angle)


def mask(p: Parts, i: int) -> None:
    """Face masks with ear loops, leaning back: pleated, cup-shaped, plain or with a valve."""
    width, height, body, trim, kind = (
        (0.170, 0.095, "sky", "white", "pleated"),
        (0.150, 0.115, "black", "dark", "folded"),
        (0.135, 0.120, "white", "silver", "cup"),
        (0.165, 0.100, "pink", "magenta", "pleated"),
        (0.150, 0.120, "lime", "white", "folded"),
    )[i]
    p.place((0, 0, height * 0.47), (-28, 0, 0))
    if kind == "folded":
        half = [(0.0, -0.5), (0.42, -0.36), (0.52, -0.10), (0.52, 0.12), (0.30, 0.40), (0.0, 0.5)]
        for side in (-1, 1):
            # Each half is drawn lying, raised upright and folded back from the ridge.
            p.cut(
                [(side * x * width, z * height) for x, z in half],
                0.003,
                body,
                (0, -0.03, 0),
                (90, 0, side * 32),
            )
        p.rod((0, -0.033, -0.48 * height), (0, -0.033, 0.48 * height), 0.0030, trim)
        p.rod((0.004, -0.030, 0.40 * height), (0.030, -0.012, 0.33 * height), 0.0026, "silver")
        p.rod((-0.004, -0.030, 0.40 * height), (-0.030, -0.012, 0.33 * height), 0.0026, "silver")
        edge, back = 0.43 * width, 0.012
    else:
        bulge = 0.030 if kind == "pleated" else 0.048

        def sheet(u: Points, v: Points) -> tuple[Points, Points, Points]:
            x, z = 2 * u - 1, 2 * v - 1
            narrow = 1 - (0.10 if kind == "pleated" else 0.30) * np.abs(z) ** 2.2
            steps = 0.004 * np.abs(np.sin(1.5 * np.pi * v)) if kind == "pleated" else 0.0
            away = -bulge * (1 - x * x) * (1 - (0.5 if kind == "pleated" else 0.85) * z * z) - steps
            return x * width / 2 * narrow, away, z * height / 2

        p.mesh(meshes.stretch(sheet, 11, 9), body)
        edge, back = 0.47 * width, 0.002
        if kind == "pleated":
            for z in (-0.25, 0.0, 0.25):
                _band(p, width * 0.97, bulge + 0.0035, z * height, 0.0012, trim)
            _band(p, width * 0.90, bulge * 0.55, 0.485 * height, 0.0022, trim)
        else:
            rim = meshes.arc(width / 2, 0, 345, 24, squash=0.86)[:, [0, 2, 1]] * [0.93, 1, 1.02]
            p.tube(rim, 0.0035, trim, (0, 0.003, 0), close=True)
            _band(p, width * 0.42, 0.020, 0.40 * height, 0.0035, trim)
            p.can((0.026, -bulge * 0.70, -0.016), (0.026, -bulge - 0.004, -0.016), 0.015, "blue")
            p.can((0.026, -bulge, -0.016), (0.026, -bulge - 0.006, -0.016), 0.008, "white")
    for side in (-1, 1):
        loop = meshes.arc(0.036, -90, 90, 9, squash=0.9)[:, [0, 2, 1]] * [side, 1, 1]
        loop[:, 1] += 0.02 * np.abs(loop[:, 0]) / 0.036
        color = (
            "white" if body not in ("white", "black") else ("yellow" if kind == "cup" else "gray")
        )
        p.tube(loop, 0.0018, color, (side * edge, back, 0))


def _band(p: Parts, width: float, bulge: float, height: float, thick: float, color: str) -> None:
    """A line across a mask that follows its bulge."""
    x = np.linspace(-1, 1, 9)
    path = np.stack([x * width / 2, -bulge * (1 - x * x), 0 * x + height], axis=1)
    p.tube(path, thick, color)


def bracelet(p: Parts, i: int) -> None:
    """A string of beads, a golden bangle with stones and a braided band with a clasp."""
    p.place((0, 0, 0.008))
    if i == 0:
        for k in range(16):
            a = 2 * np.pi * k / 16
            at = (0.032 * np.cos(a), 0.032 * np.sin(a), 0.0)
            p.ball(0.0066, at, ("red", "maroon")[k % 2] if k else "gold")
    elif i == 1:
        p.ring(0.033, 0.0045, "gold", n=22)
        for k in range(6):
            a = np.pi * (k / 6 + 1.05)
            p.ball(0.0055, (0.034 * np.cos(a), 0.034 * np.sin(a), 0.003), ("green", "white")[k % 2])
    else:
        turns = np.radians(np.linspace(0, 360, 57))[:-1]
        for k in range(2):
            # Two cords wound about each other eight times on the way round.
            out, up = 0.0042 * np.cos(8 * turns + np.pi * k), 0.0042 * np.sin(8 * turns + np.pi * k)
            path = np.stack(
                [(0.031 + out) * np.cos(turns), (0.031 + out) * np.sin(turns), up], axis=1
            )
            p.mesh(meshes.sweep(path, 0.0042, 5, close=True), ("navy", "cyan")[k])
        p.box((0.018, 0.012, 0.012), (0, -0.031, 0), "silver")


def socks(p: Parts, i: int) -> None:
    """A pair of socks lying side by side."""
    leg, body, trim = ((0.17, "white", "red"), (0.10, "navy", "yellow"), (0.14, "gray", "pink"))[i]
    for k, side in enumerate((-1, 1)):
        p.place((side * 0.045 - 0.02, -0.01 * side, 0.011 * k * 0.3), (0, 0, 12 + 8 * k))
        p.cut(_sock_outline(leg), 0.010, body)
        p.cut(
            [(-0.032, leg - 0.022), (0.032, leg - 0.022), (0.032, leg), (-0.032, leg)], 0.012, trim
        )
        p.cut(
            [
                (-0.033, leg - 0.050),
                (0.033, leg - 0.050),
                (0.033, leg - 0.038),
                (-0.033, leg - 0.038),
            ],
            0.011,
            trim,
        )
        toe = meshes.arc(0.031, -95, 95, 8)[:, :2] + [0.074, -0.022]
        p.cut([(float(x), float(y)) for x, y in toe], 0.012, trim)
        heel = meshes.arc(0.030, 165, 280, 7)[:, :2] + [-0.002, -0.020]
        p.cut([(float(x), float(y)) for x, y in heel] + [(0.006, -0.01)], 0.0115, trim)


def _sock_outline(leg: float) -> list[tuple[float, float]]:
    heel = meshes.arc(0.030, 180, 270, 5)[:, :2] + [0.0, -0.022]
    toe = meshes.arc(0.030, -90, 90, 7)[:, :2] + [0.075, -0.022]
    rounded = [(float(x), float(y)) for x, y in (*heel, *toe)]
    return [(-0.030, leg), *rounded, (0.042, 0.012), (0.030, 0.028), (0.030, leg)]


def wallet(p: Parts, i: int) -> None:
    """A folded wallet with notes, a long purse with a clasp and an open one with cards."""
    p.place(turn=(0, 0, 20))
    if i == 0:
        p.box((0.115, 0.090, 0.008), (0, 0, 0.004), "brown")
        p.box((0.100, 0.080, 0.005), (0.004, 0.010, 0.010), "lime")
        p.box((0.115, 0.090, 0.006), (0, -0.002, 0.015), "brown", (-6, 0, 0))
        p.rod((-0.056, -0.045, 0.009), (0.056, -0.045, 0.009), 0.009, "brown")
        p.box((0.030, 0.020, 0.003), (0.034, -0.018, 0.0195), "gold", (-6, 0, 0))
    elif i == 1:
        p.box((0.190, 0.095, 0.022), (0, 0, 0.011), "magenta")
        p.box((0.192, 0.050, 0.006), (0, -0.024, 0.024), "maroon")
        p.can((0, -0.036, 0.026), (0, -0.036, 0.031), 0.010, "gold")
        p.rod((-0.095, 0.047, 0.014), (0.095, 0.047, 0.014), 0.006, "gold")
        p.tube(meshes.arc(0.030, 90, 270, 8), 0.004, "maroon", (-0.095, 0, 0.012))
    else:
        for side in (-1, 1):
            p.box((0.095, 0.100, 0.008), (side * 0.046, 0, 0.014), "black", (0, -side * 14, 0))
            for k, color in enumerate(
                ("red", "blue", "white") if side < 0 else ("yellow", "green", "white")
            ):
                at = (side * 0.048, 0.034 - 0.024 * k, 0.021 + 0.0012 * k)
                p.box((0.074, 0.030, 0.002), at, color, (0, -side * 14, 0))
        p.rod((0, -0.05, 0.006), (0, 0.05, 0.006), 0.006, "black")


def headphone(p: Parts, i: int) -> None:
    """Headphones standing on their cups."""
    band, cup, pad, size = (
        ("black", "black", "red", 0.036),
        ("white", "silver", "gray", 0.032),
        ("teal", "orange", "dark", 0.038),
    )[i]
    arch = meshes.arc(0.078, 0, 180, 17, squash=1.15)[:, [0, 2, 1]]
    p.place((0, 0, size * 1.35))
    p.tube(arch, 0.0065, band, (0, 0, 0.015))
    top = meshes.arc(0.074, 50, 130, 9, squash=1.15)[:, [0, 2, 1]]
    p.tube(top, 0.010, pad, (0, 0, 0.012))
    for side in (-1, 1):
        p.place((side * 0.078, 0, size * 1.1), (0, side * 8, 0))
        p.can((side * -0.012, 0, 0), (side * 0.014, 0, 0), size, cup)
        p.egg((0.013, size * 1.04, size * 1.04), (-side * 0.018, 0, 0), pad if i != 0 else "dark")
        p.can((side * 0.014, 0, 0), (side * 0.017, 0, 0), size * 0.55, pad)


def hat(p: Parts, i: int) -> None:
    """A straw hat with a ribbon, and a baseball cap."""
    if i == 0:
        crown = [
            (0.185, 0.012),
            (0.150, 0.002),
            (0.095, 0.0),
            (0.088, 0.05),
            (0.075, 0.092),
            (0.045, 0.105),
            (0, 0.104),
        ]
        p.turned(crown, "tan", sides=24)
        p.turned([(0.096, 0.002), (0.0895, 0.034)], "maroon", sides=24)
        return
    steps = np.linspace(0, np.pi / 2, 7)
    p.turned(
        [(float(0.092 * np.cos(a)), float(0.095 * np.sin(a))) for a in steps[:-1]] + [(0.0, 0.095)],
        "blue",
    )
    p.ball(0.008, (0, 0, 0.096), "white")

    def brim(u: Points, v: Points) -> tuple[Points, Points, Points]:
        angle = np.pi * (1.17 + 0.66 * u)
        reach = 0.088 + 0.085 * v * np.sin(np.pi * u) ** 0.4
        x, y = reach * np.cos(angle), reach * np.sin(angle)
        return x, y, 0.014 - 1.1 * x * x - 0.012 * v

    p.mesh(meshes.stretch(brim, 13, 5), "red")
    p.box((0.040, 0.004, 0.036), (0, -0.083, 0.046), "white", (-26, 0, 0))
    for side in (-1, 1):
        path = meshes.arc(0.0935, 0, 90, 8)[:, [0, 2, 1]]
        path[:, 1] = side * 0.0935 * np.cos(np.radians(np.linspace(0, 90, 8))) * 0.6
        path[:, 0] *= 0.8
        p.tube(path, 0.0018, "navy")
        p.tube(path * [-1, 1, 1], 0.0018, "navy")
