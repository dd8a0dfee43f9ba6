"""What a policy is given that takes a robot's observations as a sequence and in parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TASK = "task"
"""The name under which a sequence brings its task's vector."""


@dataclass(frozen=True)
class ObservationLayout:
    """The parts of a sequence's inputs, by name.

    A batch of n sequences of so many steps is a dictionary: each image ``[n, steps, 3, side,
    side]`` as bytes, each part of the state ``[n, steps, size]`` in units of about one, and
    :data:`TASK` ``[n, task]``. Labels are ``[n, steps, numbers of an action]``.

    Args:
        images: Names of the images.
        side: Pixels of an image's side.
        states: Size of each part of the state.
        task: Length of the vector that says which task it is; 0 if nothing does.
    """

    images: tuple[str, ...] = ()
    side: int = 0
    states: Mapping[str, int] = field(default_factory=dict)
    task: int = 0
