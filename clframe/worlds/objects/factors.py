"""The four factors at three levels (Table II of the paper), each alone away from its easy level.

| factor | level 1 | level 2 | level 3 |
| --- | --- | --- | --- |
| illumination | strong | normal: less than half of the light | weak: a tenth, grainy |
| occlusion | 0 % | 25 % of the object's pixels hidden | 50 % |
| pixel | longer side of its box over 200 pixels | 30 to 200 | below 30 |
| clutter | nothing else | 4 other things | 10 other things, never in front |

Pixel sizes are those of the paper's frames of 424 x 240 and are scaled with the square root of the
area, so that an object takes the same share of an image of any size: in an image of 64 x 64, 200
becomes 40.1 and 30 becomes 6.0 pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from clframe.worlds.objects import catalog
from clframe.worlds.render import Lighting

OCCLUDED = (0.0, 0.25, 0.50)
"""Share of the object's pixels that is hidden at each level of occlusion."""
OCCLUSION_TOLERANCE = 0.04
"""By how much the mean over a segment's frames may differ from that share."""
REFERENCE_SIDE = (424 * 240) ** 0.5
"""Side of the square with as many pixels as a frame of the paper."""
PIXEL_BOUNDS = (200.0, 30.0)
"""Lengths of the longer side of the box, in the paper's frames, between the levels of size."""
CLUTTER = (0, 4, 10)
"""Other things around the object at each level of clutter."""


@dataclass(frozen=True)
class Dimming:
    """A level of illumination: how much is left of lamp and room light, and the sensor's gain."""

    lamp: float
    ambient: float
    gain: float


ILLUMINATION = (Dimming(1.0, 1.0, 0.5), Dimming(0.40, 0.48, 1.5), Dimming(0.08, 0.13, 3.5))

_EASY_SHARE = (0.70, 0.80)
# Parts of the image's side that the object takes at each level, well inside the bounds.
_SHARES = (_EASY_SHARE, (0.20, 0.42), (0.064, 0.078))


def level_index(factor: str, segment: int, of: str) -> int:
    """The level (0 to 2) of factor `of` in a segment of `factor`: 0 but for the factor itself."""
    return catalog.level_of(segment) - 1 if factor == of else 0


def object_share(level: int, rng: np.random.Generator) -> float:
    """How much of the image's side the object is to take."""
    # The same draw at every level, so that only the size differs between levels.
    low, high = _SHARES[level]
    return float(low + (high - low) * rng.random())


def pixel_bounds(size: int) -> tuple[float, float]:
    """The two bounds of the object's size, for an image of this side in pixels.

    >>> [round(bound, 1) for bound in pixel_bounds(64)]
    [40.1, 6.0]
    """
    scale = size / REFERENCE_SIDE
    return PIXEL_BOUNDS[0] * scale, PIXEL_BOUNDS[1] * scale


def lit(lighting: Lighting, level: int) -> Lighting:
    """The light of a room at a level of illumination."""
    left = ILLUMINATION[level]
    lights = tuple(
        replace(light, intensity=light.intensity * left.lamp) for light in lighting.lights
    )
    red, green, blue = (left.ambient * part for part in lighting.ambient)
    return replace(lighting, lights=lights, ambient=(red, green, blue))
