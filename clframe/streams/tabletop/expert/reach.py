"""Whether the arm gets its hand somewhere, on the way that its controller takes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from clframe.streams.tabletop.control import Arm
from clframe.streams.tabletop.gripper import HOME, pointing_down
from clframe.streams.tabletop.kinematics import Joints
from clframe.streams.tabletop.poses import Matrix, Point, matrix_of_rotvec, rotvec_of_matrix
from clframe.streams.tabletop.world import World

Pose = tuple[Point, Matrix]
_STEP, _TURN = 0.04, 0.25
"""Meters and radians between two poses that are tried on the way."""
_LENGTH = 0.1
"""Meters that a radian of error counts as much as."""
ENOUGH = 0.012
"""What a hand may miss a pose by and still do its work."""


class Reach:
    """Tries ways of the hand with the arm's joints; a floating hand reaches everything.

    Args:
        world: Whose robot.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    def misses(self, poses: Iterable[Pose], start: Joints | None = None) -> float:
        """The largest distance by which the hand misses poses that it goes to one after the other.

        Args:
            poses: Where to.
            start: The arm's joints before; None is home, so that the same scene gives the same
                choice wherever the hand is now.
        """
        driver = self._world.driver
        if not isinstance(driver, Arm):
            return 0.0
        joints = driver.home if start is None else start
        here: Pose = driver.pose(joints) if start is not None else (HOME, pointing_down())
        worst = 0.0
        for position, rotation in poses:
            way, turn = position - here[0], rotvec_of_matrix(rotation @ here[1].T)
            distance, angle = float(np.linalg.norm(way)), float(np.linalg.norm(turn))
            n = max(1, int(np.ceil(max(distance / _STEP, angle / _TURN))))
            for step in range(1, n + 3):
                part = min(1.0, step / n)
                joints, miss = driver.follow(
                    joints, here[0] + part * way, matrix_of_rotvec(part * turn) @ here[1]
                )
            here = (position, rotation)
            worst = max(worst, float(np.linalg.norm(miss[:3]) + _LENGTH * np.linalg.norm(miss[3:])))
        return worst
