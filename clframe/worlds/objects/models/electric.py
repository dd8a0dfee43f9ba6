"""Things of metal and electricity: plug, battery, mouse, key."""

from __future__ import annotations

import numpy as np

from clframe.worlds.objects.models import meshes
from clframe.worlds.objects.models.meshes import Points
from clframe.worlds.objects.models.parts import Parts


def plug(p: Parts, i: int) -> None:
    """Plugs with their pins and a length of cable: flat, three-pin, round and right-angled."""
    body, cable = (("white", "white"), ("black", "black"), ("cream", "gray"), ("orange", "orange"))[
        i
    ]
    p.place((0, 0, 0.017), (0, 0, 30))
    if i == 2:
        p.turned(
            [(0, -0.024), (0.010, -0.022), (0.019, 0.004), (0.019, 0.012), (0, 0.012)],
            body,
            turn=(0, 90, 0),
        )
        for side in (-1, 1):
            p.rod((0.010, side * 0.0095, 0), (0.032, side * 0.0095, 0), 0.0026, "steel")
    else:
        wide = (0.024, 0.036, 0.0, 0.030)[i]
        shape = [
            (-0.026, -wide * 0.28),
            (-0.006, -wide / 2),
            (0.014, -wide / 2),
            (0.014, wide / 2),
            (-0.006, wide / 2),
            (-0.026, wide * 0.28),
        ]
        p.cut(shape, 0.024, body, (0, 0, -0.012))
        p.box((0.007, wide + 0.006, 0.030), (0.014, 0, 0), body)
        for side in (-1, 1):
            lean = 24 * side if i in (1, 3) else 0
            p.box(
                (0.020, 0.0020, 0.0085), (0.026, side * wide * 0.24, 0.003), "silver", (lean, 0, 0)
            )
        if i in (1, 3):
            p.box((0.022, 0.0020, 0.0085), (0.027, 0, -0.008), "gold", (90, 0, 0))
    for x in (-0.028, -0.034, -0.040):
        p.can((x - 0.002, 0, 0), (x + 0.002, 0, 0), 0.0060, cable)
    p.tube(_cable(i), 0.0038, cable)


def _cable(i: int) -> Points:
    t = np.linspace(0, 1, 14)
    bend = (1.0, -1.0, 1.0, -1.0)[i]
    x = -0.026 - 0.055 * np.sin(np.pi * 0.5 * np.minimum(1.6 * t, 1))
    x = np.where(t > 0.6, x + 0.10 * (t - 0.6), x)
    return np.stack([x, bend * 0.075 * t**2, -0.012 * np.minimum(2 * t, 1)], axis=1)


def battery(p: Parts, i: int) -> None:
    """A pair of AA cells, one standing and one lying; and a square 9-volt block."""
    if i == 1:
        p.place(turn=(0, 0, 24))
        p.box((0.026, 0.017, 0.044), (0, 0, 0.022), "black")
        p.box((0.0265, 0.0175, 0.016), (0, 0, 0.035), "gold")
        p.can((-0.0063, 0, 0.044), (-0.0063, 0, 0.0475), 0.0030, "silver")
        p.can((0.0063, 0, 0.044), (0.0063, 0, 0.0475), 0.0046, "silver")
        p.box((0.010, 0.001, 0.0025), (0, -0.0086, 0.016), "white")
        p.box((0.0025, 0.001, 0.010), (0, -0.0086, 0.016), "white")
        return
    for k in range(2):
        if k:
            p.place((0.026, -0.016, 0.0072), (0, 90, -35))
            p.place((0.010, -0.018, 0.0072), (0, 90, -25))
        p.can((0, 0, 0), (0, 0, 0.034), 0.0072, "dark")
        p.can((0, 0, 0.033), (0, 0, 0.048), 0.00725, "orange")
        p.can((0, 0, 0.048), (0, 0, 0.0485), 0.0066, "silver")
        p.can((0, 0, 0.048), (0, 0, 0.0508), 0.0027, "silver")


def mouse(p: Parts, i: int) -> None:
    """A computer mouse with two buttons, a wheel and its cable."""
    p.place(turn=(0, 0, 28))

    def shell(u: Points, v: Points) -> tuple[Points, Points, Points]:
        angle, rise = 2 * np.pi * u, np.pi / 2 * v
        x, y = np.cos(angle), np.sin(angle)
        level = np.cos(rise) ** 0.5
        top = 0.034 * np.sin(rise) ** 0.8 * (1 - 0.25 * x * level)
        return 0.052 * x * level, (0.030 + 0.003 * x * x) * y * level, top

    p.mesh(meshes.stretch(shell, 18, 7, around=True), "dark")
    level = np.linspace(0.05, 0.97, 8)
    top = 0.0345 * np.sqrt(1 - level**4) ** 0.8
    p.tube(np.stack([0.052 * level, 0 * level, top * (1 - 0.25 * level)], axis=1), 0.0011, "silver")
    over = np.concatenate([-level[::-1], level])
    bow = np.concatenate([top[::-1], top])
    p.tube(np.stack([0.003 + 0 * over, 0.030 * over, bow], axis=1), 0.0011, "silver")
    p.can((0.026, -0.004, 0.0250), (0.026, 0.004, 0.0250), 0.0075, "red")
    t = np.linspace(0, 1, 10)
    p.tube(np.stack([0.050 + 0.060 * t, 0.030 * t * t, 0.004 + 0 * t], axis=1), 0.0025, "dark")


def key(p: Parts, i: int) -> None:
    """Keys: a door key, a car key with a black head and an old long one with two wards."""
    p.place((0, 0, 0.003), (0, 0, 30))
    if i == 2:
        p.ring(0.014, 0.0032, "brown", (-0.040, 0, 0), n=14, squash=1.15)
        p.can((-0.026, 0, 0), (0.040, 0, 0), 0.0036, "brown")
        p.can((-0.022, 0, 0), (-0.018, 0, 0), 0.0055, "gold")
        p.box((0.006, 0.016, 0.003), (0.034, -0.010, 0), "brown")
        p.box((0.006, 0.012, 0.003), (0.024, -0.008, 0), "brown")
        return
    metal = ("gold", "silver")[i]
    bits = [(0.000, -0.0045)]
    for k, depth in enumerate((0.2, 0.9, 0.4, 1.0, 0.3)):
        x = 0.006 + 0.007 * k
        bits += [(x, -0.0045), (x + 0.0025, -0.0045 + 0.0045 * depth), (x + 0.0045, -0.0045)]
    p.cut([*bits, (0.044, -0.002), (0.044, 0.0030), (0.000, 0.0045)], 0.0026, metal)
    if i == 0:
        p.ring(0.0095, 0.0042, metal, (-0.011, 0, 0.0013), squash=1.1, n=14)
        p.ring(0.012, 0.0013, "steel", (-0.027, 0.004, 0.002), (12, 0, 0), n=14)
    else:
        head = [(0.002, -0.009), (0.002, 0.009), (-0.030, 0.013), (-0.036, 0.0), (-0.030, -0.013)]
        p.cut(head, 0.008, "black", (0, 0, -0.003))
        p.can((-0.010, 0.0035, 0.004), (-0.010, 0.0035, 0.0062), 0.0035, "red")
        p.can((-0.021, -0.003, 0.004), (-0.021, -0.003, 0.0062), 0.0035, "silver")
        p.ring(0.011, 0.0013, "silver", (-0.044, 0, 0.001), n=14)
