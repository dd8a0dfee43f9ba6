"""A task as a MuJoCo model with its state: where things are, and what touches what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import fromstring, tostring

import numpy as np
from numpy.typing import NDArray

from clframe.errors import DataError
from clframe.worlds.bddl import BDDLError, Literal, Problem
from clframe.worlds.tabletop.arm import BASE
from clframe.worlds.tabletop.assets import Joint
from clframe.worlds.tabletop.compiler import (
    Blueprint,
    RobotKind,
    blueprint,
    compile_model,
    to_mjcf,
)
from clframe.worlds.tabletop.control import Arm, Driver, FloatingHand
from clframe.worlds.tabletop.gripper import HAND, LEFT, RIGHT, TARGET
from clframe.worlds.tabletop.poses import Matrix, Point, quat_of_matrix, rotate_z

FLOOR = "floor"
"""What the room's floor is called in contacts, unless it is the workspace itself."""


@dataclass(frozen=True)
class MovingPart:
    """A joint of a fixture: where it is in MuJoCo's arrays, and what its values mean."""

    qpos: int
    dof: int
    body: int
    spec: Joint


@dataclass(frozen=True)
class PlaceNow:
    """A named place where it is now: center, rotation, half sizes, and the spots to fill."""

    pos: Point
    rotation: Matrix
    half: NDArray[np.float64]
    spots: tuple[tuple[float, float], ...]


class Simulation:
    """The state of a task, without its start states, goal and actions.

    Args:
        problem: A task description in LIBERO's dialect.
        plan: The models of everything in it; None looks them up.
        robot: What moves them.

    Raises:
        BDDLError: If it cannot be built.
    """

    def __init__(
        self, problem: Problem, plan: Blueprint | None = None, robot: RobotKind = "hand"
    ) -> None:
        import mujoco

        self._mj = mujoco
        self.problem = problem
        self.plan = blueprint(problem) if plan is None else plan
        self.robot = robot
        self.model: Any = compile_model(self.plan, robot)
        self.data: Any = mujoco.MjData(self.model)
        self.driver: Driver = (Arm if robot == "arm" else FloatingHand)(self.model, self.data)
        self._scratch: Any = mujoco.MjData(self.model)
        parts = mujoco.mjtState
        self._kept = int(
            parts.mjSTATE_TIME
            | parts.mjSTATE_QPOS
            | parts.mjSTATE_QVEL
            | parts.mjSTATE_ACT
            | parts.mjSTATE_WARMSTART
            | parts.mjSTATE_CTRL
            | parts.mjSTATE_MOCAP_POS
            | parts.mjSTATE_MOCAP_QUAT
        )
        self._index()

    def _index(self) -> None:
        model = self.model
        self.bodies: dict[str, int] = {
            name: model.body(name).id for name in (*self.plan.fixtures, *self.plan.objects, HAND)
        }
        self._free = {
            name: (int(model.joint(name).qposadr[0]), int(model.joint(name).dofadr[0]))
            for name in self.plan.objects
        }
        self.joints: dict[str, MovingPart] = {}
        for name, asset in self.plan.fixtures.items():
            for part in asset.parts:
                key = f"{name}/{part.name}"
                joint = model.joint(key)
                self.joints[key] = MovingPart(
                    int(joint.qposadr[0]), int(joint.dofadr[0]), model.body(key).id, part.joint
                )
        # The thing that each geom belongs to.
        names = [""] * model.nbody
        for name, body in self.bodies.items():
            names[body] = name
        if self.robot == "arm":
            names[model.body(BASE).id] = BASE
        for body in range(1, model.nbody):  # parents come first
            names[body] = names[body] or names[model.body_parentid[body]]
        self._owners: list[str] = [names[body] for body in model.geom_bodyid]
        for geom in range(model.ngeom):
            if model.geom_bodyid[geom] == 0:
                self._owners[geom] = self.plan.workspace if self._is_surface(geom) else FLOOR
        self._owner_ids = {name: k for k, name in enumerate(sorted(set(self._owners)))}
        self._geom_owner = np.array([self._owner_ids[name] for name in self._owners])
        self._fingers = [int(model.joint(name).qposadr[0]) for name in (LEFT, RIGHT)]
        self._finger_geoms = np.array([model.geom(name).id for name in (LEFT, RIGHT)])
        self._mocap = int(model.body(TARGET).mocapid[0])

    def _is_surface(self, geom: int) -> bool:
        name = self.model.geom(geom).name
        return bool(name == f"{self.plan.workspace}:0") or (
            name == "floor" and self.plan.arena.height == 0
        )

    # ------------------------------------------------------------------ state

    def forward(self) -> None:
        """Recompute everything that follows from positions."""
        self._mj.mj_forward(self.model, self.data)

    def look(self) -> None:
        """Bring poses, cameras and contacts up to date, without solving for forces."""
        mj = self._mj
        mj.mj_kinematics(self.model, self.data)
        mj.mj_comPos(self.model, self.data)
        mj.mj_camlight(self.model, self.data)
        mj.mj_collision(self.model, self.data)

    def state(self) -> NDArray[np.float64]:
        """All that decides what happens next: time, positions and speeds first, as in LIBERO."""
        kept = np.empty(self._mj.mj_stateSize(self.model, self._kept))
        self._mj.mj_getState(self.model, self.data, kept, self._kept)
        model, fixtures = self.model, [self.bodies[name] for name in self.plan.fixtures]
        places = (model.body_pos[fixtures].ravel(), model.body_quat[fixtures].ravel())
        return np.concatenate([kept, *places])

    def restore(self, state: NDArray[np.float64]) -> None:
        """Go to a state that `state` gave, in this world or another one of the same task.

        Raises:
            DataError: If it is not one of this task.
        """
        size, n = self._mj.mj_stateSize(self.model, self._kept), len(self.plan.fixtures)
        if state.shape != (size + 7 * n,):
            raise DataError(
                f"A state of this task has {size + 7 * n} numbers, not the shape {state.shape}."
            )
        self._mj.mj_setState(self.model, self.data, np.ascontiguousarray(state[:size]), self._kept)
        fixtures = [self.bodies[name] for name in self.plan.fixtures]
        self.model.body_pos[fixtures] = state[size : size + 3 * n].reshape(n, 3)
        self.model.body_quat[fixtures] = state[size + 3 * n :].reshape(n, 4)
        self.look()

    def advance(self, steps: int) -> None:
        """Let physics run without an action."""
        self.driver.run(steps)

    def set_fixture(self, name: str, position: Point, yaw: float) -> None:
        """Move something that stands still."""
        self.model.body_pos[self.bodies[name]] = position
        self.model.body_quat[self.bodies[name]] = quat_of_matrix(rotate_z(yaw))

    def set_object(self, name: str, position: Point, quat: NDArray[np.float64]) -> None:
        """Move a free thing and take away its speed."""
        at, dof = self._free[name]
        self.data.qpos[at : at + 3] = position
        self.data.qpos[at + 3 : at + 7] = quat
        self.data.qvel[dof : dof + 6] = 0

    def set_joint(self, key: str, value: float) -> None:
        """Set a part's joint."""
        part = self.joints[key]
        self.data.qpos[part.qpos] = value
        self.data.qvel[part.dof] = 0

    def position(self, name: str) -> Point:
        """The origin of a thing."""
        return np.array(self.data.xpos[self.bodies[name]])

    def rotation(self, name: str) -> Matrix:
        """The rotation of a thing."""
        return np.array(self.data.xmat[self.bodies[name]]).reshape(3, 3)

    def joint(self, key: str) -> float:
        """The value of a part's joint."""
        return float(self.data.qpos[self.joints[key].qpos])

    @property
    def opening(self) -> float:
        """Distance between the fingers."""
        return float(self.data.qpos[self._fingers].sum())

    @property
    def finger_places(self) -> NDArray[np.float64]:
        """How far the left and the right finger are from the middle, to opposite sides."""
        left, right = self.data.qpos[self._fingers]
        return np.array([left, -right])

    @property
    def touch(self) -> tuple[bool, bool]:
        """Whether the left and the right finger touch something."""
        touching = self.data.contact.geom
        left, right = self._finger_geoms
        return bool((touching == left).any()), bool((touching == right).any())

    def between_fingers(self, name: str) -> bool:
        """Whether both fingers touch a thing."""
        pairs, owner = self.data.contact.geom, self._owner_ids[name]
        others = pairs[:, ::-1][self._geom_owner[pairs] == owner]
        return bool(np.isin(self._finger_geoms, others).all())

    def place(self, region: str) -> PlaceNow:
        """A named place of a thing, where it is now.

        Args:
            region: Full name of a region without rectangles.
        """
        entry = self.plan.regions[region]
        spec = self.plan.asset(entry.target).places[entry.name]
        body = self.bodies[entry.target]
        if spec.part is not None:
            body = self.joints[f"{entry.target}/{spec.part}"].body
        rotation = np.array(self.data.xmat[body]).reshape(3, 3)
        center = self.data.xpos[body] + rotation @ np.array(spec.pos)
        return PlaceNow(center, rotation, np.array(spec.half), spec.spots)

    def part_of(self, literal: Literal) -> str:
        """The joint that ``open``, ``close``, ``turnon`` or ``turnoff`` is about.

        Raises:
            BDDLError: If the thing has no such part.
        """
        predicate, name = literal[0], literal[1]
        region = self.plan.regions.get(name)
        owner = region.target if region is not None else name
        part: str | None = None
        if owner in self.plan.fixtures:
            asset = self.plan.fixtures[owner]
            if predicate in ("turnon", "turnoff"):
                part = asset.device
            elif region is not None:
                part = asset.places[region.name].part
            else:
                part = asset.door
        if part is None:
            verb = "turned on or off" if predicate.startswith("turn") else "opened or closed"
            raise BDDLError(f"{name} is nothing that can be {verb}.")
        return f"{owner}/{part}"

    # ------------------------------------------------------------------ contacts

    def owner_of(self, geom: int) -> str:
        """The thing a geom belongs to."""
        return self._owners[geom]

    def touching(self, one: str, other: str) -> bool:
        """Whether two things are in contact."""
        a, b = self._owner_ids.get(one, -1), self._owner_ids.get(other, -1)
        contacts = self.data.contact
        pairs = self._geom_owner[contacts.geom]
        hit = ((pairs[:, 0] == a) & (pairs[:, 1] == b)) | ((pairs[:, 0] == b) & (pairs[:, 1] == a))
        return bool(hit.any())

    def overlap(
        self,
        hand: tuple[Point, Matrix],
        opening: float,
        held: tuple[str, Point, Matrix] | None = None,
        joints: NDArray[np.float64] | None = None,
    ) -> float:
        """How deep a robot whose hand is at another pose would be in things, summed over contacts.

        Infinite where the hand cannot get.

        Args:
            hand: Position and rotation to try.
            opening: Between the fingers.
            held: A thing that is tried at another pose too; it may touch the hand.
            joints: Of an arm, at that pose; None takes those nearest to the present ones.
        """
        mj, scratch = self._mj, self._scratch
        scratch.qpos[:] = self.data.qpos
        scratch.qpos[self._fingers] = opening / 2
        mine = [self._owner_ids[name] for name in (HAND, BASE) if name in self._owner_ids]
        if not self.driver.place(scratch, *hand, joints):
            return np.inf
        if held is not None:
            name, position, rotation = held
            mine.append(self._owner_ids[name])
            at = self._free[name][0]
            scratch.qpos[at : at + 3] = position
            scratch.qpos[at + 3 : at + 7] = quat_of_matrix(rotation)
        mj.mj_kinematics(self.model, scratch)
        mj.mj_collision(self.model, scratch)
        contacts = scratch.contact
        if not len(contacts.dist):
            return 0.0
        is_mine = np.isin(self._geom_owner[contacts.geom], mine)
        clash = is_mine.any(axis=1) & ~is_mine.all(axis=1) & (contacts.dist < -0.001)
        return float(-contacts.dist[clash].sum())

    def bounds(self, name: str) -> tuple[Point, Point]:
        """The lowest and highest corner of a thing's bounding box, along the world's axes."""
        geoms = np.flatnonzero(self._geom_owner == self._owner_ids[name])
        center, half = self.model.geom_aabb[geoms, :3], self.model.geom_aabb[geoms, 3:]
        rotation = self.data.geom_xmat[geoms].reshape(-1, 3, 3)
        middle = self.data.geom_xpos[geoms] + np.einsum("gij,gj->gi", rotation, center)
        reach = np.einsum("gij,gj->gi", np.abs(rotation), half)
        return (middle - reach).min(axis=0), (middle + reach).max(axis=0)

    def model_file(self) -> str:
        """The model as MJCF text, with what stands still where it stands now."""
        root = fromstring(to_mjcf(self.plan, self.robot))
        for body in root.iterfind("worldbody/body"):
            name = body.get("name", "")
            if name in self.plan.fixtures:
                at = self.bodies[name]
                body.set("pos", " ".join(map(repr, self.model.body_pos[at].tolist())))
                body.set("quat", " ".join(map(repr, self.model.body_quat[at].tolist())))
        return tostring(root, encoding="unicode")
