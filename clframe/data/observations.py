"""Layout of a robot's observations for a policy that takes them as sequences and by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TASK = "task"
"""The key of the task's vector in a sequence's inputs."""


@dataclass(frozen=True)
class ObservationLayout:
    """Names and sizes of a sequence's inputs.

    A batch of n sequences of equal length is a dictionary: each image ``[n, steps, 3, side,
    side]`` as bytes, each state vector ``[n, steps, size]`` in units of about one, and
    :data:`TASK` ``[n, task]``. Labels are ``[n, steps, numbers of an action]``.

    Args:
        images: Names of the images.
        side: Pixels of an image's side.
        states: Size of each state vector by name.
        task: Length of the vector that identifies the task; 0 if there is none.
    """

    images: tuple[str, ...] = ()
    side: int = 0
    states: Mapping[str, int] = field(default_factory=dict)
    task: int = 0
