"""Disturbed demonstrations (Laskey et al. 2017, "DART").

While the expert demonstrates, its hand is pushed about, and what is recorded is the action it
wanted. A policy that clones it then also sees how to come back from its own errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Disturbance:
    """How the hand is pushed about.

    Args:
        jitter: Standard deviation of what is added to every translation component of an action.
        pushes: Probability per step that a push begins, which lasts 3 to 6 steps.
        strength: Standard deviation of a push's components.
    """

    jitter: float = 0.1
    pushes: float = 0.03
    strength: float = 0.3


class Disturber:
    """Disturbs the actions of one episode.

    Args:
        how: How strongly.
        seed: Of all its chance.

    >>> act = Disturber(Disturbance(), seed=0)
    >>> bool((act(np.zeros(7)) != 0).any()), act(np.zeros(7))[6]
    (True, np.float64(0.0))
    """

    def __init__(self, settings: Disturbance, seed: int) -> None:
        self._settings = settings
        self._rng = np.random.default_rng(seed)
        self._push, self._left = np.zeros(3), 0

    def __call__(self, action: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is done in place of an action; the grip stays as it is."""
        settings, rng = self._settings, self._rng
        done = np.array(action)
        if self._left == 0 and rng.random() < settings.pushes:
            self._push, self._left = rng.normal(0.0, settings.strength, 3), int(rng.integers(3, 7))
        if self._left:
            done[:3] += self._push
            self._left -= 1
        done[:3] += rng.normal(0.0, settings.jitter, 3)
        done[3:6] += rng.normal(0.0, settings.jitter / 4, 3)
        return done
