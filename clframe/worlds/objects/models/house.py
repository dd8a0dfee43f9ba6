"""Things of the house: cushion, swabs, thermometer, clippers, comb, umbrella, bag, tissue."""

from __future__ import annotations

import numpy as np

from clframe.worlds.objects.models import meshes
from clframe.worlds.objects.models.kitchen import vessel
from clframe.worlds.objects.models.meshes import Points
from clframe.worlds.objects.models.parts import Parts


def cottonswab(p: Parts, i: int) -> None:
    """A fan of cotton swabs, and a tub of them."""
    if i == 0:
        for k in range(5):
            p.place((0, 0, 0.003 + 0.0012 * k), (0, 0, 30 + 17 * (k - 2)))
            p.rod((-0.032, 0, 0), (0.032, 0, 0), 0.0013, "sky")
            for x in (-0.033, 0.033):
                p.egg((0.0075, 0.0034, 0.0034), (x, 0, 0), "white")
        return
    p.turned(vessel([(0.033, 0), (0.036, 0.060)], 0.002), "teal")
    p.turned([(0.0345, 0.018), (0.0360, 0.042)], "white")
    for k in range(13):
        a, r = 2.4 * k, 0.007 * np.sqrt(k)
        x, y = r * np.cos(a), r * np.sin(a)
        p.rod((x, y, 0.004), (1.25 * x, 1.25 * y, 0.072), 0.0014, "cream")
        p.egg((0.0042, 0.0042, 0.0085), (1.28 * x, 1.28 * y, 0.075), "white")


def cushion(p: Parts, i: int) -> None:
    """Cushions: a square one, a round one and a long roll."""
    if i == 2:
        p.place((0, 0, 0.085), (0, 0, 18))
        p.can((-0.2, 0, 0), (0.2, 0, 0), 0.085, "teal")
        for x in (-0.2, 0.2):
            p.egg((0.025, 0.084, 0.084), (x, 0, 0), "cream")
            p.ring(0.085, 0.007, "cream", (x, 0, 0), (0, 90, 0))
            p.ball(0.014, (x * 1.12, 0, 0), "teal")
        return
    if i == 1:
        puff = [(0, 0), (0.13, 0.0), (0.18, 0.03), (0.19, 0.06), (0.175, 0.10), (0.12, 0.128)]
        p.turned([*puff, (0.05, 0.128), (0, 0.108)], "violet", sides=16)
        p.ring(0.192, 0.009, "yellow", (0, 0, 0.058), n=20)
        for k in range(6):
            a = np.pi * k / 3 + 0.3
            seam = [
                (r * np.cos(a), r * np.sin(a), z) for r, z in ((0.02, 0.112), *reversed(puff[3:]))
            ]
            p.tube(seam, 0.004, "purple")
        p.egg((0.026, 0.026, 0.014), (0, 0, 0.115), "yellow")
        return
    # A square with corners drawn out, thick in the middle: two such sheets make the pillow.
    p.place((0, 0, 0.195), (58, 0, 0))
    for side in (-1, 1):

        def half(u: Points, v: Points, side: int = side) -> tuple[Points, Points, Points]:
            x, y = 2 * u - 1, 2 * v - 1
            pull = 1 - 0.10 * (1 - y * y), 1 - 0.10 * (1 - x * x)
            puff = ((1 - x**4) * (1 - y**4)) ** 0.5
            return 0.21 * x * pull[0] * side, 0.21 * y * pull[1], 0.072 * side * puff

        p.mesh(meshes.stretch(half, 9, 9), "red")
    p.egg((0.018, 0.018, 0.008), (0, 0, 0.073), "gold")
    for x in (-0.208, 0.208):
        for y in (-0.208, 0.208):
            p.ball(0.014, (x, y, 0), "gold")


def thermometer(p: Parts, i: int) -> None:
    """A glass clinical one, a digital one and a wall thermometer with a red column."""
    if i == 0:
        p.place((0, 0, 0.005), (0, 0, 32))
        p.rod((-0.055, 0, 0), (0.040, 0, 0), 0.0050, "glass")
        p.rod((0.046, 0, 0), (0.060, 0, 0), 0.0033, "silver")
        p.rod((-0.005, 0, 0.0042), (0.042, 0, 0.0042), 0.0013, "red")
        for k in range(9):
            p.box((0.0009, 0.005, 0.0008), (-0.045 + 0.009 * k, 0.001, 0.0050), "black")
        p.rod((-0.062, 0, 0), (-0.056, 0, 0), 0.0052, "blue")
    elif i == 1:
        p.place((0, 0, 0.006), (0, 0, 30))
        outline = [
            (-0.065, -0.011),
            (0.0, -0.011),
            (0.03, -0.005),
            (0.055, -0.003),
            (0.055, 0.003),
            (0.03, 0.005),
            (0.0, 0.011),
            (-0.065, 0.011),
        ]
        p.cut(outline, 0.012, "white", (0, 0, -0.006))
        p.box((0.034, 0.013, 0.001), (-0.018, 0, 0.0062), "dark")
        p.box((0.026, 0.009, 0.001), (-0.018, 0, 0.0068), "lime")
        p.can((-0.048, 0, 0.004), (-0.048, 0, 0.008), 0.0065, "orange")
        p.rod((0.055, 0, 0), (0.068, 0, 0), 0.0030, "silver")
    else:
        p.elevation = 14.0
        p.place((0, 0, 0.02), (-16, 0, 0))
        p.box((0.058, 0.010, 0.200), (0, 0, 0.100), "wood")
        p.box((0.044, 0.004, 0.180), (0, -0.005, 0.104), "white")
        p.can((0, -0.010, 0.040), (0, -0.010, 0.185), 0.0040, "glass")
        p.can((0, -0.0115, 0.030), (0, -0.0115, 0.120), 0.0036, "red")
        p.ball(0.0100, (0, -0.010, 0.030), "red")
        for k in range(7):
            for side in (-1, 1):
                p.box((0.009, 0.001, 0.002), (side * 0.0135, -0.0075, 0.056 + 0.019 * k), "black")


def nail_clippers(p: Parts, i: int) -> None:
    """Nail clippers with the lever raised."""
    length, width, body, lever = (
        (0.060, 0.012, "silver", "silver"),
        (0.080, 0.016, "steel", "red"),
        (0.055, 0.013, "gold", "pink"),
    )[i]
    p.place(turn=(0, 0, 24))
    half = width / 2
    p.box((length, width, 0.0025), (0, 0, 0.003), body)
    p.box((length * 0.98, width, 0.0025), (0, 0, 0.0095), body, (0, -5, 0))
    end = length / 2
    # The jaws bend towards each other and end in a broad curved edge.
    jaw = [
        (end - 0.002, -half),
        (end + 0.008, -half * 1.15),
        (end + 0.010, 0),
        (end + 0.008, half * 1.15),
        (end - 0.002, half),
    ]
    p.cut(jaw, 0.0025, body, (0, 0, 0.002))
    p.cut(jaw, 0.0025, body, (0, 0, 0.0105))
    p.can((end - 0.008, 0, 0.001), (end - 0.008, 0, 0.022), 0.0026, "steel")
    p.place((0, 0, 0), (0, 0, 24))
    shape = [
        (0, -half * 0.6),
        (-length * 0.75, -half * 0.95),
        (-length * 0.85, 0),
        (-length * 0.75, half * 0.95),
        (0, half * 0.6),
    ]
    p.cut(shape, 0.003, lever, (end - 0.006, 0, 0.016), (0, 20, 0))
    p.can((-end + 0.004, 0, 0.001), (-end + 0.004, 0, 0.010), 0.003, "steel")


def comb(p: Parts, i: int) -> None:
    """Combs: a pocket comb, one with a handle and a wide-toothed one."""
    length, teeth, reach, body, handle = (
        (0.130, 22, 0.024, "black", 0.0),
        (0.110, 17, 0.026, "magenta", 0.085),
        (0.140, 12, 0.036, "wood", 0.0),
    )[i]
    p.place(turn=(0, 0, 24))
    half = length / 2
    spine = [(-half, 0.016), (-half - 0.005, 0.008), (-half - 0.005, -0.001)]
    spine += [(-x, y) for x, y in reversed(spine)]
    p.cut(spine, 0.005, body)
    pitch = length / teeth
    for x in (-half - 0.001, half + 0.001):
        p.box((0.007, reach, 0.005), (x, -reach / 2, 0.0025), body)
    tooth = [
        (-0.28 * pitch, 0.0),
        (-0.16 * pitch, -reach),
        (0.16 * pitch, -reach),
        (0.28 * pitch, 0.0),
    ]
    row = [
        meshes.moved(meshes.cut(tooth, 0.005), ((k + 0.5) * pitch - half, 0, 0))
        for k in range(teeth)
    ]
    p.mesh(meshes.joined(row), body)
    if handle:
        p.rod((length / 2, 0.008, 0.006), (length / 2 + handle, 0.004, 0.006), 0.0065, body)
        p.ball(0.008, (length / 2 + handle, 0.004, 0.007), "white")


def umbrella(p: Parts, i: int) -> None:
    """Open umbrellas resting on their rim and handle, and a rolled one."""
    if i == 1:
        p.place((0, 0, 0.03), (0, 90, 24))
        p.turned(
            [
                (0, -0.30),
                (0.008, -0.29),
                (0.030, -0.20),
                (0.034, 0.05),
                (0.022, 0.20),
                (0.010, 0.26),
            ],
            "black",
            sides=12,
        )
        p.turned([(0.032, -0.11), (0.0355, -0.09), (0.033, -0.06)], "yellow", sides=12)
        p.can((0, 0, 0.25), (0, 0, 0.34), 0.007, "steel")
        hook = meshes.arc(0.045, 0, 190, 12)[:, [0, 2, 1]]
        p.tube(hook, 0.012, "brown", (-0.045, 0, 0.34))
        p.can((0, 0, -0.36), (0, 0, -0.29), 0.006, "silver")
        return
    colors = (("red", "white"), None, ("blue", "sky"))[i] or ("red", "white")
    p.place((0, 0, 0.40), (-16, 36, 0))

    def panel(k: int) -> meshes.Mesh:
        def cloth(u: Points, v: Points) -> tuple[Points, Points, Points]:
            angle = 2 * np.pi * (k + u) / 8
            # The edge is drawn in between the ribs.
            reach = 0.48 * v * (1 - 0.07 * v * np.sin(np.pi * u))
            return reach * np.cos(angle), reach * np.sin(angle), 0.20 - 0.20 * v**1.8 + 0 * u

        return meshes.stretch(cloth, 4, 6)

    for k in range(8):
        p.mesh(panel(k), colors[k % 2])
    p.can((0, 0, 0.19), (0, 0, 0.26), 0.008, "silver")
    p.can((0, 0, -0.36), (0, 0, 0.20), 0.008, "steel")
    hook = meshes.arc(0.045, 0, -190, 12)[:, [0, 2, 1]]
    p.tube(hook, 0.014, "brown" if i == 0 else "black", (-0.045, 0, -0.36))


def toothpaste(p: Parts, i: int) -> None:
    """Tubes of toothpaste lying, flat at the end and round at the cap."""
    length, width, body, cap, band = (
        (0.150, 0.050, "white", "red", "red"),
        (0.130, 0.044, "green", "white", "white"),
        (0.110, 0.040, "blue", "yellow", "orange"),
    )[i]
    p.place((0, 0, 0.018), (0, 0, 26))
    angle = np.linspace(0, 2 * np.pi, 17)[:-1]
    # An ellipse that goes from round at the shoulder to a flat seam, half as long round about.
    stations = np.linspace(0, 1, 6)

    def section(s: float, grow: float = 1.0) -> Points:
        flat, wide = 0.018 * (1 - s) + 0.0012, 0.019 + (width / 2 - 0.019) * s
        x = length * (0.5 - s) + 0 * angle
        drop = -0.016 * s
        return np.stack(
            [x, grow * wide * np.cos(angle), grow * flat * np.sin(angle) + drop], axis=1
        )

    p.mesh(meshes.loft([section(float(s)) for s in stations]), body)
    p.mesh(meshes.loft([section(0.22, 1.03), section(0.42, 1.03)]), band)
    p.mesh(meshes.loft([section(0.50, 1.03), section(0.56, 1.03)]), cap if cap != body else band)
    p.box((0.010, width * 1.01, 0.004), (-length / 2, 0, -0.016), "silver")
    p.tube([(length / 2, 0, 0), (length / 2 + 0.008, 0, 0)], (0.018, 0.010), body)
    p.can((length / 2 + 0.006, 0, 0), (length / 2 + 0.030, 0, 0), 0.013, cap)


def plasticbag(p: Parts, i: int) -> None:
    """Carrier bags standing filled, with two handles."""
    width, height, body, mark = (
        (0.24, 0.26, "white", "red"),
        (0.20, 0.22, "yellow", "green"),
        (0.26, 0.30, "sky", "navy"),
    )[i]

    def side_wall(u: Points, v: Points) -> tuple[Points, Points, Points]:
        angle = 2 * np.pi * u
        crumple = 1 + 0.09 * np.sin(4 * angle + 8 * v) * v + 0.07 * np.sin(7 * angle - 9 * v)
        wide = width / 2 * (0.95 - 0.20 * v * v) * (0.5 + 0.5 * crumple)
        deep = 0.085 * (1 - 0.80 * v**1.5) * crumple
        dip = 0.10 * height * v * (np.abs(np.cos(angle)) - 0.6)
        return wide * np.cos(angle), deep * np.sin(angle), height * v + dip

    p.mesh(meshes.stretch(side_wall, 18, 7, around=True), body)
    p.egg((width * 0.47, 0.066, 0.012), (0, 0, 0.012), body)
    for side in (-1, 1):
        loop = meshes.arc(width * 0.13, -12, 192, 11, squash=2.2)[:, [0, 2, 1]]
        loop[:, 1] = 0.010 * np.sin(5 * loop[:, 0] / width)
        p.tube(loop, 0.010, body, (side * width * 0.24, 0, height * 0.93), (0, side * 7, 0))
    p.egg((width * 0.24, 0.012, height * 0.16), (0, -0.066, height * 0.42), mark, (-14, 0, 0))


def tissue(p: Parts, i: int) -> None:
    """A box of tissues, a toilet roll and a pocket pack."""
    if i == 0:
        p.place(turn=(0, 0, 18))
        p.box((0.230, 0.120, 0.080), (0, 0, 0.040), "sky")
        p.box((0.232, 0.122, 0.020), (0, 0, 0.026), "white")
        p.egg((0.065, 0.026, 0.002), (0, 0, 0.0805), "navy")
        p.mesh(meshes.stretch(_sheet, 9, 5), "white", (0, 0, 0.078))
    elif i == 1:
        wall = [(0.021, 0.0), (0.055, 0.0), (0.055, 0.098), (0.021, 0.098), (0.021, 0.0)]
        p.turned(wall, "white", sides=24)
        p.turned([(0.0225, 0.099), (0.0190, 0.099), (0.0190, 0.004), (0.0225, 0.004)], "tan")
        p.box((0.004, 0.060, 0.098), (0.0545, -0.030, 0.049), "white")
        p.box((0.002, 0.050, 0.004), (0.0560, -0.032, 0.010), "silver")
    else:
        p.place(turn=(0, 0, 22))
        p.box((0.110, 0.055, 0.024), (0, 0, 0.014), "green")
        p.box((0.050, 0.057, 0.026), (-0.004, 0, 0.014), "lime")
        p.egg((0.030, 0.012, 0.002), (0.0, 0, 0.0275), "white")
        p.box((0.040, 0.045, 0.002), (0.052, 0, 0.027), "white", (0, -24, 0))
        for x in (-0.055, 0.055):
            p.rod((x, -0.022, 0.014), (x, 0.022, 0.014), 0.007, "green")


def _sheet(u: Points, v: Points) -> tuple[Points, Points, Points]:
    """A tissue pulled half out of its slit: gathered below, spread and folded above."""
    spread = 0.25 + 0.75 * v
    x = (2 * u - 1) * 0.060 * spread
    y = 0.014 * np.sin(7 * u + 1.5) * spread + 0.01 * v
    return x, y, 0.070 * v * (1 - 0.45 * (2 * u - 1) ** 2 * v)
