"""What a policy observes of LIBERO's simulator, the same from a recording and from an environment.

Numbers of a state: gripper (2), arm joints (7), place of the hand (3), then position and turn of
every object (7 each) and the joints of fixtures, with room for the fullest scene of the suite.
Heights are above the table. The first nine are what LIBERO's own policies observe; with cameras
the rest is hidden.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.worlds.libero.tasks import ARM, LiberoTask

OBSERVED = 9
HAND = 12
CAMERAS = ("agentview", "eye_in_hand")
IMAGE = 128
"""Pixels of a side in LIBERO's recordings."""


@dataclass(frozen=True)
class Layout:
    """Room for the things of a suite.

    Args:
        objects: Most objects of a scene.
        joints: Most joints of a scene's fixtures.
    """

    objects: int
    joints: int

    @classmethod
    def of(cls, tasks: Iterable[LiberoTask]) -> Layout:
        """Room for the fullest scene.

        >>> from clframe.worlds.libero.tasks import tasks_of
        >>> Layout.of(tasks_of("libero_spatial"))
        Layout(objects=5, joints=4)
        """
        sizes = [(len(task.objects), task.joints) for task in tasks]
        return cls(max(pair[0] for pair in sizes), max(pair[1] for pair in sizes))

    @property
    def size(self) -> int:
        """Numbers of a state."""
        return HAND + 7 * self.objects + self.joints

    def state(
        self,
        task: LiberoTask,
        gripper: NDArray[np.floating],
        joints: NDArray[np.floating],
        hand: NDArray[np.floating],
        positions: NDArray[np.floating],
    ) -> NDArray[np.float32]:
        """States of rows of what the robot feels and of the simulator's positions ``qpos``."""
        rows, n = len(positions), len(task.objects)
        things = positions[:, ARM:]
        state = np.zeros((rows, self.size), np.float32)
        state[:, :2], state[:, 2:OBSERVED], state[:, OBSERVED:HAND] = gripper, joints, hand
        state[:, HAND - 1] -= task.height
        poses = np.array(things[:, : 7 * n]).reshape(rows, n, 7)
        poses[:, :, 2] -= task.height
        state[:, HAND : HAND + 7 * n] = poses.reshape(rows, 7 * n)
        rest = things[:, 7 * n :]
        first = HAND + 7 * self.objects
        state[:, first : first + rest.shape[1]] = rest
        return state


def positions_of(states: NDArray[np.floating], task: LiberoTask) -> NDArray[np.floating]:
    """The positions ``qpos`` in simulator states ``[n, 1 + nq + nv]``."""
    return states[:, 1 : 1 + ARM + 7 * len(task.objects) + task.joints]


def shrunk(images: NDArray[np.uint8], size: int, where: str) -> NDArray[np.uint8]:
    """Images ``[..., h, w, 3]`` with a side of ``size``, each pixel the mean of those it is for.

    >>> shrunk(np.full((4, 4, 3), 7, np.uint8), 2, "x").shape
    (2, 2, 3)
    """
    *lead, height, width, _ = images.shape
    if height != width or size > height or height % size:
        raise DataError(
            f"{where} has images of {height} by {width} pixels, which cannot be shrunk to "
            f"stream.size={size}"
        )
    if size == height:
        return images
    cell = height // size
    blocks = images.reshape(*lead, size, cell, size, cell, 3)
    means: NDArray[np.floating] = blocks.mean(axis=(-4, -2))
    return means.round().astype(np.uint8)
