"""Whether the robot gets its hand somewhere, on the way that its controller takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from clframe.worlds.tabletop.control import Arm
from clframe.worlds.tabletop.gripper import pointing_down
from clframe.worlds.tabletop.kinematics import HIGHEST, LOWEST, Joints
from clframe.worlds.tabletop.poses import Matrix, Point, matrix_of_rotvec, rotvec_of_matrix
from clframe.worlds.tabletop.world import World

Pose = tuple[Point, Matrix]
Held = tuple[str, Point, Matrix]
HALF_TURN = np.diag([-1.0, -1.0, 1.0])
"""About its own direction a hand looks the same after half a turn."""
_STEP, _TURN = 0.04, 0.25
"""Meters and radians between two poses that are tried on the way."""
_LENGTH = 0.1
"""Meters that a radian of error counts as much as."""
_ROOM = 0.4
"""Radians to a limit that an arm has to spare where it can choose."""
_HALF = 2.5
"""Radians of a turn that may go either way round."""
_ENOUGH = 0.010
"""What a hand may miss a pose by and still do its work."""


class Reach:
    """Tries ways of the hand with the arm's joints; a floating hand gets everywhere.

    Args:
        world: Whose robot.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        driver = world.driver
        self._arm = driver if isinstance(driver, Arm) else None
        self.limited = self._arm is not None

    def turns(self, rotation: Matrix) -> Iterator[Matrix]:
        """A rotation, and for an arm, whose wrist is then elsewhere, the one that grips alike."""
        yield rotation
        if self.limited:
            yield rotation @ HALF_TURN

    def tilts(self, rotation: Matrix) -> Iterator[Matrix]:
        """Rotations of a hand that closes alike and leans to the one or other side."""
        y = rotation[:, 1]
        for angle in (0.25, -0.25, 0.5, -0.5, 0.75, -0.75, 1.0, -1.0):
            yield matrix_of_rotvec(angle * y) @ rotation

    def way(
        self,
        poses: Sequence[Pose],
        start: Joints | None,
        opening: float | None = None,
        held: Sequence[Held] = (),
    ) -> tuple[float, float, Joints | None]:
        """Go to poses one after the other.

        Args:
            poses: Where to.
            start: The joints before; None is home, so that the same scene gives the same choice
                wherever the hand is now.
            opening: Between the fingers; None does not look for contacts.
            held: Where the thing in the hand is at each pose.

        Returns:
            How deep the robot would be in things, summed over poses; the most by which the hand
            misses one, beyond what does no harm; and the joints in the end.
        """
        arm, world = self._arm, self._world
        depth = missed = 0.0
        joints = start if arm is None or start is not None else arm.home
        for number, pose in enumerate(poses):
            if arm is not None:
                assert joints is not None
                joints, miss = _track(arm, joints, pose)
                missed = max(missed, miss - _ENOUGH)
            if opening is not None:
                thing = held[number] if held else None
                depth += world.overlap(pose, opening, thing, joints)
        return depth, missed, joints

    def way_home(self, pose: Pose) -> Iterator[Pose]:
        """Poses back to home, if an arm gets to a pose from there and not from where it is.

        Its joints turn back the way they came, which need not be the shortest turn of the hand.
        """
        arm = self._arm
        if arm is None:
            return
        there, here = _angle(pose[1], pointing_down()), _angle(pose[1], self._world.aim[1])
        astray = here > _HALF > there or self.way([pose], arm.joints)[1] > 0
        if not astray or self.way([pose], None)[1] > 0:
            return
        joints = arm.joints
        position, rotation = arm.pose(joints)
        yield position + np.array([0.0, 0.0, 0.1]), rotation
        for share in np.linspace(0.0, 1.0, 11)[1:]:
            yield arm.pose(joints + share * (arm.home - joints))

    def tightness(self, joints: Joints | None) -> float:
        """How near joints are to a limit, from 0 to 1."""
        if joints is None:
            return 0.0
        room = np.minimum(joints - LOWEST, HIGHEST - joints).min()
        return float(np.clip(1.0 - room / _ROOM, 0.0, 1.0))

    def now(self) -> Joints | None:
        """The joints where the arm is."""
        return None if self._arm is None else self._arm.joints


def _angle(one: Matrix, other: Matrix) -> float:
    turn = rotvec_of_matrix(one @ other.T)
    return float(np.sqrt(turn @ turn))


def _track(arm: Arm, joints: Joints, goal: Pose) -> tuple[Joints, float]:
    """The joints after the hand went straight to a pose, and by how much it misses it."""
    position, rotation = arm.pose(joints)
    way, turn = goal[0] - position, rotvec_of_matrix(goal[1] @ rotation.T)
    n = max(1, int(np.ceil(max(np.sqrt(way @ way) / _STEP, np.sqrt(turn @ turn) / _TURN))))
    miss = np.zeros(6)
    for step in range(1, n + 3):
        part = min(1.0, step / n)
        target = matrix_of_rotvec(part * turn) @ rotation if part < 1.0 else goal[1]
        joints, miss = arm.follow(joints, position + part * way, target)
    return joints, float(np.sqrt(miss[:3] @ miss[:3]) + _LENGTH * np.sqrt(miss[3:] @ miss[3:]))
