"""The 121 OpenLORIS instances, built in code from MuJoCo geoms at their real size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from clframe.errors import DataError, nearest
from clframe.worlds.objects import catalog
from clframe.worlds.objects.models import desk, electric, house, kitchen, toys, wear
from clframe.worlds.objects.models.meshes import Points
from clframe.worlds.objects.models.parts import Parts, Solid, attach, extreme

__all__ = ["Thing", "attach", "build"]

_STANDING, _LOW, _LYING = 24.0, 38.0, 58.0

# How each category is made, and from how high (degrees above the ground) it is best seen.
_MAKERS: dict[str, tuple[Callable[[Parts, int], None], float]] = {
    "bottle": (kitchen.bottle, _STANDING),
    "bowl": (kitchen.bowl, 34.0),
    "corkscrew": (kitchen.corkscrew, 18.0),
    "cottonswab": (house.cottonswab, 48.0),
    "cup": (kitchen.cup, 32.0),
    "cushion": (house.cushion, 32.0),
    "glasses": (wear.glasses, 26.0),
    "knife": (kitchen.knife, _LYING),
    "ladle": (kitchen.ladle, _LOW),
    "mask": (wear.mask, _STANDING),
    "paper_cutter": (desk.paper_cutter, _LYING),
    "pencil": (desk.pencil, _LYING),
    "plasticbag": (house.plasticbag, 20.0),
    "plug": (electric.plug, 50.0),
    "pot": (kitchen.pot, 28.0),
    "scissors": (desk.scissors, _LYING),
    "stapler": (desk.stapler, 30.0),
    "thermometer": (house.thermometer, 46.0),
    "toy": (toys.toy, 28.0),
    "nail_clippers": (house.nail_clippers, 40.0),
    "bracelet": (wear.bracelet, 42.0),
    "comb": (house.comb, _LYING),
    "umbrella": (house.umbrella, 26.0),
    "socks": (wear.socks, 62.0),
    "toothpaste": (house.toothpaste, 42.0),
    "wallet": (wear.wallet, 46.0),
    "headphone": (wear.headphone, 20.0),
    "key": (electric.key, _LYING),
    "battery": (electric.battery, 30.0),
    "mouse": (electric.mouse, 42.0),
    "pencilcase": (desk.pencilcase, 40.0),
    "tape": (desk.tape, 24.0),
    "chopsticks": (kitchen.chopsticks, _LYING),
    "notebook": (desk.notebook, 50.0),
    "spoon": (kitchen.spoon, 52.0),
    "tissue": (house.tissue, 30.0),
    "clamp": (desk.clamp, _LYING),
    "hat": (wear.hat, 26.0),
    "u_disk": (desk.u_disk, 50.0),
    "swimming_glasses": (wear.swimming_glasses, 28.0),
}


@dataclass(frozen=True)
class Thing:
    """One object: its solids, centered over the origin and resting on the ground z = 0.

    Attributes:
        solids: its parts, in meters.
        points: points of its surface that span its outline from any side.
        elevation: degrees above the ground from which it is best recognized.
    """

    solids: tuple[Solid, ...]
    points: Points
    elevation: float

    @property
    def low(self) -> Points:
        """Lowest corner of its bounding box."""
        return np.asarray(self.points.min(axis=0))

    @property
    def high(self) -> Points:
        """Highest corner of its bounding box."""
        return np.asarray(self.points.max(axis=0))


@lru_cache(maxsize=256)
def build(instance: str) -> Thing:
    """Build an instance by its official name, the same every time.

    Args:
        instance: such as ``cup_10``.

    Raises:
        DataError: if OpenLORIS has no such instance.
    """
    names = catalog.instances()
    if instance not in names:
        raise DataError(f"OpenLORIS has no instance {instance!r}; {nearest(instance, names)}")
    category = catalog.category_of(instance)
    maker, elevation = _MAKERS[category]
    family = [name for name in names if catalog.category_of(name) == category]
    parts = Parts()
    maker(parts, family.index(instance))
    points = np.concatenate([solid.surface() for solid in parts.solids])
    low, high = points.min(axis=0), points.max(axis=0)
    shift = -np.array([*(low + high)[:2] / 2, low[2]])
    solids = tuple(replace(solid, position=solid.position + shift) for solid in parts.solids)
    height = elevation if parts.elevation is None else parts.elevation
    return Thing(solids, extreme(points + shift), height)
