"""What drives the hand: a weld that pulls it to its target, or an arm's motors.

Both kinds of robot follow the same target, a body that actions move; a `Driver` puts the hand at a
pose and lets physics run.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.tabletop.arm import BASE, JOINTS
from clframe.worlds.tabletop.gripper import HAND, HOME, TARGET, pointing_down
from clframe.worlds.tabletop.kinematics import (
    HIGHEST,
    LOWEST,
    N_JOINTS,
    NEAR_HOME,
    Joints,
    forward,
    inverse,
    nearest_joints,
)
from clframe.worlds.tabletop.poses import Matrix, Point, quat_of_matrix

TICK = 2
"""Physics steps between two torques of the arm: 100 Hz."""
_STIFFNESS, _DAMPING = 900.0, 60.0
"""Acceleration for each meter (or radian) of error and for each meter per second: critical."""
_PULL = np.array([18.0, 100.0])
"""Acceleration of the hand in meters and radians that is asked for at most: with the inertia that
is felt there it bounds the force of a blocked one."""
_REST, _STILL = 10.0, 7.0
"""How the arm is drawn to its posture at home where the hand leaves it free."""
_EDGE, _SHY = 0.25, 200.0
"""Radians before a limit from which a joint is pushed back, and how strongly."""
_DRIFT = 0.05 / _STILL
"""How far an urge takes the joints in one action's time."""
_SOFT, _SOFTER = np.diag([0.001] * 3 + [0.02] * 3), np.diag([0.12] * 3 + [1.0] * 3)
"""Added to what is felt at the hand (1 / kg), so that a stretched arm, which cannot move some way,
does not push without bounds."""


_SLUGGISH = np.diag([0.03] * 3 + [0.3] * 3)
"""The same where ways are tried: poses that only a stretched arm has count as hardly reached."""


class Driver(Protocol):
    """Moves a hand."""

    def place(
        self, data: Any, position: Point, rotation: Matrix, joints: Joints | None = None
    ) -> bool:
        """Put the hand, at rest, to a pose in some data; False if it is out of reach.

        Args:
            data: Which.
            position: Of the hand.
            rotation: Of the hand.
            joints: An arm's joints for that pose, if they are known.
        """
        ...

    def go_home(self) -> None:
        """Put the hand, at rest, to where an episode starts."""
        ...

    def run(self, steps: int) -> None:
        """Let physics run, with the hand drawn to its target."""
        ...

    @property
    def joints(self) -> Joints:
        """The arm's joints; none where there is no arm."""
        ...


class FloatingHand:
    """The hand without an arm, which a weld draws to the target.

    Args:
        model: A ``mujoco.MjModel``.
        data: Its ``mujoco.MjData``.
    """

    def __init__(self, model: Any, data: Any) -> None:
        import mujoco

        self._mj, self._model, self._data = mujoco, model, data
        self._at, self._dof = int(model.joint(HAND).qposadr[0]), int(model.joint(HAND).dofadr[0])
        self.joints: Joints = np.zeros(0)

    def go_home(self) -> None:
        """Put the hand to where an episode starts."""
        self.place(self._data, HOME, pointing_down())

    def place(
        self, data: Any, position: Point, rotation: Matrix, joints: Joints | None = None
    ) -> bool:
        """Put the hand to a pose; it floats, so every one is within reach."""
        data.qpos[self._at : self._at + 3] = position
        data.qpos[self._at + 3 : self._at + 7] = quat_of_matrix(rotation)
        data.qvel[self._dof : self._dof + 6] = 0
        return True

    def run(self, steps: int) -> None:
        """Let physics run."""
        self._mj.mj_step(self._model, self._data, steps)


class Arm:
    """An arm under operational-space control (Khatib 1987).

    After "A unified approach for motion and force control of robot manipulators". A spring and a
    damper accelerate the hand to its target; times the inertia of the arm as felt at the hand this
    is a force, which the transposed Jacobian turns into torques. What the hand leaves free draws
    the arm to its posture at home and away from its limits.

    Args:
        model: A ``mujoco.MjModel``.
        data: Its ``mujoco.MjData``.
    """

    def __init__(self, model: Any, data: Any) -> None:
        import mujoco

        self._mj, self._model, self._data = mujoco, model, data
        first = model.joint(JOINTS[0])
        at, dof = int(first.qposadr[0]), int(first.dofadr[0])
        self._qpos, self._dofs = slice(at, at + N_JOINTS), slice(dof, dof + N_JOINTS)
        motor = int(model.actuator(JOINTS[0]).id)
        self._motors = slice(motor, motor + N_JOINTS)
        self._hand, self._target = int(model.body(HAND).id), int(model.body(TARGET).id)
        self.base: Point = np.array(model.body(BASE).pos)
        self._scratch = mujoco.MjData(model)
        self._inertia = np.zeros((model.nv, model.nv))
        self._jacobian = np.zeros((6, model.nv))
        ready = inverse(HOME - self.base, pointing_down(), NEAR_HOME[6:])
        self.home: Joints = ready[int(np.argmin(((ready - NEAR_HOME) ** 2).sum(axis=1)))]

    @property
    def joints(self) -> Joints:
        """The seven joints now."""
        return np.array(self._data.qpos[self._qpos])

    def go_home(self) -> None:
        """Put the arm to where an episode starts."""
        self.place(self._data, HOME, pointing_down(), self.home)

    def place(
        self, data: Any, position: Point, rotation: Matrix, joints: Joints | None = None
    ) -> bool:
        """Put the hand to a pose, with the joints that are nearest to the present ones."""
        if joints is None:
            joints = nearest_joints(position - self.base, rotation, self.joints)
        if joints is None:
            return False
        data.qpos[self._qpos] = joints
        data.qvel[self._dofs] = 0
        return True

    def run(self, steps: int) -> None:
        """Let physics run, with new torques every 10 ms."""
        mj, model, data = self._mj, self._model, self._data
        for _ in range(steps // TICK):
            mj.mj_step1(model, data)
            data.ctrl[self._motors] = self._torques()
            mj.mj_step2(model, data)
            mj.mj_step(model, data, TICK - 1)

    def pose(self, joints: Joints) -> tuple[Point, Matrix]:
        """Where the hand is for given joints."""
        position, rotation = forward(joints)
        return position + self.base, rotation

    def follow(
        self, joints: Joints, position: Point, rotation: Matrix
    ) -> tuple[Joints, NDArray[np.float64]]:
        """Where the controller takes the joints in one action's time, without regard to contacts.

        Args:
            joints: Before; the hand is near the pose.
            position: Of the target.
            rotation: Of the target.

        Returns:
            The joints after, and by how much the hand missed the pose before.
        """
        mj, data = self._mj, self._scratch
        data.qpos[self._qpos] = joints
        mj.mj_kinematics(self._model, data)
        mj.mj_comPos(self._model, data)
        mj.mj_crb(self._model, data)
        inertia, jacobian = self._dynamics(data)
        miss = _pose_error(data, self._hand, position, rotation)
        free = _DRIFT * self._urge(joints)
        carried = np.linalg.solve(inertia, jacobian.T)
        felt = jacobian @ carried + _SLUGGISH
        change = carried @ np.linalg.solve(felt, miss - jacobian @ free) + free
        return np.clip(joints + change, LOWEST, HIGHEST), miss

    def _dynamics(self, data: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The arm's inertia, and the Jacobian of its hand."""
        _full_inertia(self._mj, self._model, data, self._inertia)
        self._mj.mj_jacBody(self._model, data, self._jacobian[:3], self._jacobian[3:], self._hand)
        return self._inertia[self._dofs, self._dofs], self._jacobian[:, self._dofs]

    def _urge(self, joints: Joints) -> NDArray[np.float64]:
        """Acceleration towards home and away from limits, for whatever the hand leaves free."""
        over = np.maximum(0.0, joints - HIGHEST + _EDGE)
        under = np.maximum(0.0, LOWEST + _EDGE - joints)
        return np.asarray(_REST * (self.home - joints) + _SHY * (under - over))

    def _torques(self) -> NDArray[np.float64]:
        data = self._data
        inertia, jacobian = self._dynamics(data)
        joints, speeds = data.qpos[self._qpos], data.qvel[self._dofs]
        target = data.xmat[self._target].reshape(3, 3)
        pull = _STIFFNESS * _pose_error(data, self._hand, data.xpos[self._target], target)
        pull -= _DAMPING * (jacobian @ speeds)
        for part, most in zip((pull[:3], pull[3:]), _PULL, strict=True):
            part *= min(1.0, most / max(1e-9, float(np.sqrt(part @ part))))
        free = self._urge(joints) - _STILL * speeds
        felt = jacobian @ np.linalg.solve(inertia, jacobian.T)
        push = np.linalg.solve(felt + _SOFTER, pull)
        push -= np.linalg.solve(felt + _SOFT, jacobian @ free)
        return np.asarray(jacobian.T @ push + inertia @ free)


def _pose_error(data: Any, hand: int, position: Point, rotation: Matrix) -> NDArray[np.float64]:
    """From the hand to a pose: meters, and about radians where it is not far."""
    turn = rotation @ data.xmat[hand].reshape(3, 3).T
    error = np.empty(6)
    error[:3] = position - data.xpos[hand]
    error[3] = 0.5 * (turn[2, 1] - turn[1, 2])
    error[4] = 0.5 * (turn[0, 2] - turn[2, 0])
    error[5] = 0.5 * (turn[1, 0] - turn[0, 1])
    return error


def _full_inertia(mj: Any, model: Any, data: Any, out: NDArray[np.float64]) -> None:
    try:
        mj.mj_fullM(model, data, out)
    except TypeError:  # before MuJoCo 3.10 or so the sparse matrix was handed over
        mj.mj_fullM(model, out, data.qM)
