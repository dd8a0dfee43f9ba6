"""The perturbations under which a stream's tasks are evaluated."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from clframe.errors import SettingError
from clframe.utils.setting_checks import at_least
from clframe.worlds.perturbation import Perturbation


@dataclass(frozen=True)
class PerturbSettings:
    """Additional evaluation of a stream's tasks under perturbations.

    Args:
        perturb: The axes; None for none. Every evaluation then runs further episodes of each task:
            the number of axes times levels times ``perturb_episodes``.
        perturb_levels: The levels, each in 0..1.
        perturb_episodes: Episodes per axis and level, the first of the task's own; None for all of
            them.
    """

    perturb: list[str] | None = None
    perturb_levels: tuple[float, ...] = (0.5, 1.0)
    perturb_episodes: int | None = None

    def __post_init__(self) -> None:
        at_least(self.perturb_episodes, 1, "stream.perturb_episodes")
        for name, values in (("perturb", self.perturb), ("perturb_levels", self.perturb_levels)):
            if values is not None and len(set(values)) < len(values):
                raise SettingError(f"stream.{name} holds a value twice: {list(values)}")
        if 0 in self.perturb_levels:
            raise SettingError(
                "stream.perturb_levels holds 0, which is the normal evaluation; remove it"
            )
        if self.perturb and not self.perturb_levels:
            raise SettingError("stream.perturb needs at least one level in stream.perturb_levels")
        self.perturbations  # noqa: B018  raises for levels outside 0..1

    @property
    def perturbations(self) -> tuple[Perturbation, ...]:
        """Every axis at every level."""
        pairs = itertools.product(self.perturb or (), self.perturb_levels)
        return tuple(Perturbation(axis, level) for axis, level in pairs)
