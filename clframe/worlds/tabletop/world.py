"""A task as a running simulation: start states, steps, and what holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clframe.worlds.bddl import Literal, Problem
from clframe.worlds.tabletop.compiler import TIMESTEP, Blueprint, RobotKind
from clframe.worlds.tabletop.gripper import (
    HAND,
    HOME,
    MAX_OPENING,
    REACH,
    finger_target,
    pointing_down,
)
from clframe.worlds.tabletop.placement import place_all
from clframe.worlds.tabletop.poses import (
    Matrix,
    Point,
    matrix_of_rotvec,
    orthonormal,
    quat_of_matrix,
    rotvec_of_matrix,
)
from clframe.worlds.tabletop.predicates import holds
from clframe.worlds.tabletop.simulation import Simulation

RATE = 20
"""Actions per second, as LIBERO."""
MOVE, TURN = 0.05, 0.5
"""Meters and radians of an action component of 1, as LIBERO's controller."""
_PIECES = 5
_STEPS = round(1 / (RATE * TIMESTEP * _PIECES))
# The target may run ahead of the hand only so far; it bounds the force of a blocked hand.
_LEASH, _TWIST = 0.08, 0.5


class World(Simulation):
    """One task on MuJoCo.

    Args:
        problem: A task description in LIBERO's dialect.
        plan: The models of everything in it; None looks them up.
        robot: What moves them.

    Raises:
        BDDLError: If it cannot be built.
    """

    reach = REACH
    """The box that the hand's origin stays in."""

    def __init__(
        self, problem: Problem, plan: Blueprint | None = None, robot: RobotKind = "hand"
    ) -> None:
        super().__init__(problem, plan, robot)
        self._goal_atoms = sorted(problem.goal.atoms)
        self._target_rotation = pointing_down()
        self.forward()

    def reset(
        self, rng: np.random.Generator, start_noise: float = 0.0, spread: float = 0.0
    ) -> None:
        """Draw a start state: same generator, same state.

        Args:
            rng: Of all chance.
            start_noise: The hand starts up to this many meters off its place along each axis, and
                turned by up to five times as many radians about the vertical. Things stand where
                they do without it.
            spread: Meters by which the rectangles in which things start are widened.
        """
        self._go_home()
        place_all(self, rng, spread)
        if start_noise > 0:
            shift, turn = rng.uniform(-start_noise, start_noise, 3), rng.uniform(-1.0, 1.0)
            position, rotation = HOME + shift, pointing_down(5 * start_noise * turn)
            self.driver.place(self.data, position, rotation)
            self._set_target(position, rotation)
            self.look()

    def state(self) -> NDArray[np.float64]:
        """All that decides what happens next: time, positions and speeds first, as in LIBERO."""
        return np.concatenate([super().state(), self._target_rotation.ravel()])

    def restore(self, state: NDArray[np.float64]) -> None:
        """Go to a state that `state` gave, in this world or another one of the same task."""
        super().restore(state[:-9])
        self._target_rotation = state[-9:].reshape(3, 3).copy()

    def _go_home(self) -> None:
        """Set time, speeds and forces to zero and the hand, open, to where it starts."""
        self._mj.mj_resetData(self.model, self.data)
        self.driver.go_home()
        self._set_target(HOME, pointing_down())
        self.data.ctrl[:2] = MAX_OPENING / 2
        self.data.qpos[self._fingers] = MAX_OPENING / 2

    # ------------------------------------------------------------------ the goal

    def holds(self, literal: Literal) -> bool:
        """Whether a literal holds now; see `clframe.worlds.tabletop.predicates`."""
        return holds(self, literal)

    def true_atoms(self) -> frozenset[Literal]:
        """The atoms of the goal that hold now."""
        return frozenset(atom for atom in self._goal_atoms if holds(self, atom))

    def satisfied(self) -> bool:
        """Whether the goal holds now."""
        return self.problem.goal.satisfied(self.true_atoms())

    # ------------------------------------------------------------------ acting

    def _set_target(self, position: Point, rotation: Matrix) -> None:
        self.data.mocap_pos[self._mocap] = position
        self.data.mocap_quat[self._mocap] = quat_of_matrix(rotation)
        self._target_rotation = rotation

    @property
    def aim(self) -> tuple[Point, Matrix]:
        """Where the hand is being pulled to: the target's position and rotation."""
        return np.array(self.data.mocap_pos[self._mocap]), self._target_rotation

    def step(self, action: NDArray[np.floating[Any]]) -> None:
        """Do one action: move and turn the hand's target, set the fingers, run 1/20 s.

        Args:
            action: dx, dy, dz, rotation vector (world axes), grip; each clipped to -1..1, where 1
                is 5 cm, 0.5 rad, and closed fingers.
        """
        act = np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0)
        data = self.data
        here, now = self.position(HAND), self.rotation(HAND)
        start = np.array(data.mocap_pos[self._mocap])
        goal = start + MOVE * act[:3]
        ahead = goal - here
        distance = float(np.sqrt(ahead @ ahead))
        if distance > _LEASH:
            goal = here + ahead * (_LEASH / distance)
        goal = np.clip(goal, self.reach[0], self.reach[1])
        if act[3:6].any():
            wanted = matrix_of_rotvec(TURN * act[3:6]) @ self._target_rotation
            lead = rotvec_of_matrix(wanted @ now.T)
            angle = float(np.sqrt(lead @ lead))
            if angle > _TWIST:
                wanted = matrix_of_rotvec(lead * (_TWIST / angle)) @ now
            self._target_rotation = orthonormal(wanted)
            data.mocap_quat[self._mocap] = quat_of_matrix(self._target_rotation)
        data.ctrl[:2] = finger_target(act[6])
        # The target moves in pieces, so that what is held is not torn away.
        for piece in range(1, _PIECES + 1):
            data.mocap_pos[self._mocap] = start + (goal - start) * (piece / _PIECES)
            self.driver.run(_STEPS)
        self.look()
