"""The state vector: proprioception, then a fixed slot for every thing a suite can contain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clframe.errors import SettingError
from clframe.worlds.bddl import Problem
from clframe.worlds.tabletop.compiler import RobotKind, blueprint
from clframe.worlds.tabletop.gripper import HAND
from clframe.worlds.tabletop.poses import rotvec_of_matrix
from clframe.worlds.tabletop.suites import SHIPPED, tasks
from clframe.worlds.tabletop.world import World

FAR = 10.0
"""Bound of every number of the state, and of depth, in meters."""
HAND_SIZE = 3 + 6 + 1 + 3 + 3 + 2
HAND_PARTS = {"hand": (*range(9), *range(10, 16)), "gripper": (9, 16, 17)}
"""Numbers of the hand: where it is and is to be; how far it is open and what its fingers touch."""
ARM_SIZE = 7 + 2
ARM_PARTS = {
    "joint_states": range(HAND_SIZE, HAND_SIZE + 7),
    "gripper_states": range(HAND_SIZE + 7, HAND_SIZE + ARM_SIZE),
}
"""What LIBERO's policies are given of the arm: its joints, and where its fingers are."""
Proprioception: TypeAlias = Literal["all", "libero"]
PROPRIOCEPTION = {"gripper_states": 2, "ee_pos": 3, "ee_ori": 3}
"""Observations of the hand under LIBERO's names, besides ``joint_states`` of an arm."""
OBJECT_SIZE = 1 + 3 + 3 + 6
_MOST_PARTS = 3
FIXTURE_SIZE = 1 + 3 + 2 + _MOST_PARTS * (1 + 3)
_NEAR = 0.05
"""Meters over which a nearness varies: fine where the hand acts, flat where it is far."""


@dataclass(frozen=True)
class Layout:
    """Which named thing has which slot; the same for all tasks of a suite.

    The vector is: hand position (3), its rotation's first two columns (6), finger opening (1), the
    lead of its target in position (3) and rotation (3), touch of either finger (2); for an arm its
    joints (7) and the place of either finger (2); for each object present or not (1), position
    (3), nearness (3), rotation (6); for each fixture present or not (1), position (3), cosine and
    sine of its turn (2), and for up to three parts the joint (1) and the nearness of the handle
    (3). What a task has not is zero. A nearness is tanh(d / 5 cm) of the vector d from the hand:
    millimeters matter there, and a policy that sees meters only cannot tell them.

    Args:
        objects: Movable instances.
        fixtures: Standing instances.
        robot: What moves them.
    """

    objects: tuple[str, ...]
    fixtures: tuple[str, ...]
    robot: RobotKind = "hand"

    def of(self, robot: RobotKind) -> Layout:
        """The same slots for a robot."""
        return Layout(self.objects, self.fixtures, robot)

    @property
    def robot_size(self) -> int:
        """How many numbers, the first ones, tell of the robot."""
        return HAND_SIZE + (ARM_SIZE if self.robot == "arm" else 0)

    def parts(self, which: Proprioception) -> Mapping[str, Sequence[int]]:
        """The numbers of the robot in the parts that a policy for sequences is given.

        >>> list(Layout((), (), "arm").parts("libero"))
        ['joint_states', 'gripper_states']
        """
        if which == "all":
            return {**HAND_PARTS, **(ARM_PARTS if self.robot == "arm" else {})}
        if self.robot != "arm":
            raise SettingError(
                "stream.proprioception=libero needs the joints of an arm, which stream.robot="
                f"{self.robot} does not have: choose stream.robot=arm or stream.proprioception=all"
            )
        return ARM_PARTS

    @property
    def size(self) -> int:
        """Length of the vector."""
        return self.robot_size + OBJECT_SIZE * len(self.objects) + FIXTURE_SIZE * len(self.fixtures)


def layout_of(problems: Iterable[Problem]) -> Layout:
    """A layout with a slot for everything that any of the problems names."""
    objects: set[str] = set()
    fixtures: set[str] = set()
    for problem in problems:
        plan = blueprint(problem)
        objects.update(plan.objects)
        fixtures.update(plan.fixtures)
    return Layout(tuple(sorted(objects)), tuple(sorted(fixtures)))


@cache
def suite_layout(suite: str, n: int = 10, seed: int = 0) -> Layout:
    """The layout of a suite; see `clframe.worlds.tabletop.suites.tasks`.

    >>> suite_layout("tabletop_goal").size
    124
    """
    return layout_of(task.problem for task in tasks(suite, n, seed))


@cache
def common_layout() -> Layout:
    """A layout for everything that any of LIBERO's tasks names.

    >>> set(suite_layout("tabletop_goal").objects) <= set(common_layout().objects)
    True
    """
    layouts = [suite_layout(suite) for suite in SHIPPED]
    return Layout(
        tuple(sorted({name for layout in layouts for name in layout.objects})),
        tuple(sorted({name for layout in layouts for name in layout.fixtures})),
    )


class StateVector:
    """Reads the state vector of one world.

    Args:
        world: Whose state.
        layout: With a slot for everything in the world.
    """

    def __init__(self, world: World, layout: Layout) -> None:
        self._world = world
        self._size = layout.size
        self._own = layout.robot_size
        present = [name for name in layout.objects if name in world.plan.objects]
        self._bodies = np.array([world.bodies[name] for name in present], dtype=int)
        base = layout.robot_size
        slots = [base + OBJECT_SIZE * layout.objects.index(name) for name in present]
        self._slots = np.array(slots, dtype=int)[:, None] + np.arange(OBJECT_SIZE)
        base += OBJECT_SIZE * len(layout.objects)
        self._fixtures: list[tuple[int, int]] = []
        joints: list[int] = []
        places: list[int] = []
        bodies: list[int] = []
        handles: list[tuple[float, float, float]] = []
        for number, name in enumerate(layout.fixtures):
            if name in world.plan.fixtures:
                start = base + FIXTURE_SIZE * number
                self._fixtures.append((start, world.bodies[name]))
                for order, part in enumerate(world.plan.fixtures[name].parts):
                    moving = world.joints[f"{name}/{part.name}"]
                    joints.append(moving.qpos)
                    bodies.append(moving.body)
                    handles.append(part.handle)
                    places.append(start + 6 + 4 * order)
        self._joints, self._part_bodies = np.array(joints, int), np.array(bodies, int)
        self._handles = np.array(handles).reshape(-1, 3)
        self._part_slots = np.array(places, int)[:, None] + np.arange(4)

    def read(self) -> NDArray[np.float32]:
        """The vector now."""
        world, data = self._world, self._world.data
        vector = np.zeros(self._size)
        hand, turned = world.position(HAND), world.rotation(HAND)
        aim, wanted = world.aim
        vector[0:3] = hand
        vector[3:9] = turned[:, :2].T.reshape(-1)
        vector[9] = world.opening
        vector[10:13] = aim - hand
        vector[13:16] = rotvec_of_matrix(wanted @ turned.T)
        vector[16:18] = world.touch
        if self._own > HAND_SIZE:
            vector[HAND_SIZE : self._own] = [*world.driver.joints, *world.finger_places]
        if len(self._bodies):
            positions = data.xpos[self._bodies]
            block = np.empty((len(self._bodies), OBJECT_SIZE))
            block[:, 0] = 1.0
            block[:, 1:4] = positions
            block[:, 4:7] = np.tanh((positions - hand) / _NEAR)
            # The first two columns of each rotation, which is stored by rows.
            block[:, 7:13] = data.xmat[self._bodies][:, [0, 3, 6, 1, 4, 7]]
            vector[self._slots] = block
        for start, body in self._fixtures:
            vector[start] = 1.0
            vector[start + 1 : start + 4] = data.xpos[body]
            vector[start + 4 : start + 6] = data.xmat[body][[0, 3]]
        if len(self._joints):
            turns = data.xmat[self._part_bodies].reshape(-1, 3, 3)
            grips = data.xpos[self._part_bodies] + np.einsum("pij,pj->pi", turns, self._handles)
            parts = np.empty((len(self._joints), 4))
            parts[:, 0] = data.qpos[self._joints]
            parts[:, 1:] = np.tanh((grips - hand) / _NEAR)
            vector[self._part_slots] = parts
        # Only what has left the room is clipped.
        return np.clip(vector, -FAR, FAR).astype(np.float32)


def proprioception(world: World) -> dict[str, NDArray[np.float32]]:
    """The robot under LIBERO's names; an ``ee_ori`` is a rotation's axis times its angle."""
    seen = {
        "gripper_states": world.finger_places,
        "ee_pos": world.position(HAND),
        "ee_ori": rotvec_of_matrix(world.rotation(HAND)),
    }
    if world.robot == "arm":
        seen["joint_states"] = world.driver.joints
    return {name: values.astype(np.float32) for name, values in seen.items()}
