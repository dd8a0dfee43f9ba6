"""What shines on a scene, and how brightly its image is taken."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from clframe.errors import SettingError

Color = tuple[float, float, float]
Triple = tuple[float, float, float]

FAR = 100.0
"""Meters from which a light that has only a direction shines: beyond any table or room."""


@dataclass(frozen=True)
class Light:
    """A small lamp at `position`, or sunlight that travels along `direction`.

    Intensity 1 on a surface that faces the light shows its color as it is written. A lamp does
    not get weaker with distance, so that a lamp's place and its brightness are set independently.

    Attributes:
        position: of a lamp in the world; give this or `direction`.
        direction: the way in which the light travels; need not have length 1.
        intensity: of the light, 0 or more.
        color: by which the intensity is multiplied.
        shadow: whether things stand in its way.
    """

    position: Triple | None = None
    direction: Triple | None = None
    intensity: float = 1.0
    color: Color = (1.0, 1.0, 1.0)
    shadow: bool = True

    def __post_init__(self) -> None:
        if (self.position is None) == (self.direction is None):
            raise SettingError("A light has either a position or a direction.")
        if self.direction is not None and not np.linalg.norm(self.direction) > 0:
            raise SettingError("A light's direction cannot be zero.")
        if self.intensity < 0:
            raise SettingError(f"A light's intensity must be 0 or more, not {self.intensity}.")

    def origin(self) -> NDArray[np.float64]:
        """The point from which it shines."""
        if self.position is not None:
            return np.asarray(self.position, dtype=np.float64)
        way = np.asarray(self.direction, dtype=np.float64)
        return way * (-FAR / np.linalg.norm(way))


def _two_lamps() -> tuple[Light, ...]:
    return (
        Light(position=(-1.2, -1.6, 3.0), intensity=0.75, color=(1.0, 0.97, 0.92)),
        Light(direction=(-0.6, 0.3, -1.0), intensity=0.2, color=(0.9, 0.95, 1.0), shadow=False),
    )


@dataclass(frozen=True)
class Lighting:
    """All light of a scene. The default is a lamp in front to the left and a weak fill light.

    Attributes:
        lights: lamps and suns.
        ambient: light from everywhere, as it comes from above.
        bounce: the part of it that comes from below.
        horizon: color of the background at the height of the eye (and below).
        zenith: color of the background straight above.
        exposure: by which all brightness is multiplied, the background's too.
    """

    lights: tuple[Light, ...] = field(default_factory=_two_lamps)
    ambient: Color = (0.34, 0.35, 0.38)
    bounce: float = 0.55
    horizon: Color = (0.82, 0.84, 0.86)
    zenith: Color = (0.55, 0.66, 0.80)
    exposure: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lights", tuple(self.lights))
        if self.exposure < 0:
            raise SettingError(f"The exposure must be 0 or more, not {self.exposure}.")
