"""A perturbation: how far an episode is from what was demonstrated, along one axis."""

from __future__ import annotations

from dataclasses import dataclass

from clframe.errors import SettingError


@dataclass(frozen=True)
class Perturbation:
    """A change of a task's environment that leaves its goal as it is.

    Args:
        axis: What is changed; which axes there are is the stream's to say.
        level: How far, from 0 (not at all) to 1.

    >>> str(Perturbation.parse("camera=0.50"))
    'camera=0.5'
    """

    axis: str
    level: float

    def __post_init__(self) -> None:
        if isinstance(self.level, bool) or not isinstance(self.level, int | float):
            raise SettingError(
                f"the level of the perturbation '{self.axis}' must be a number, got {self.level!r}"
            )
        if not 0.0 <= self.level <= 1.0:
            raise SettingError(
                f"the level of the perturbation '{self.axis}' must be in 0..1, got {self.level:g}"
            )

    def __str__(self) -> str:
        return f"{self.axis}={self.level:g}"

    @classmethod
    def parse(cls, text: str) -> Perturbation:
        """Read the form ``axis=level``; without a level it is 1."""
        axis, equals, level = text.partition("=")
        try:
            return cls(axis.strip(), float(level) if equals else 1.0)
        except ValueError:
            raise SettingError(
                f"a perturbation is written AXIS=LEVEL, as in camera=0.5, not '{text}'"
            ) from None
