"""The 130 tasks of LIBERO: their order, their instructions and the numbers of their states.

Liu et al., "LIBERO: Benchmarking Knowledge Transfer for Lifelong Robot Learning", 2023. Light on
purpose: worker processes import it and have no use for torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from clframe.errors import SettingError
from clframe.worlds.bddl import Problem
from clframe.worlds.tabletop import suites

# The tabletop streams ship the same task descriptions, unchanged.
_SAME_TASKS = {
    "libero_spatial": "tabletop_spatial",
    "libero_object": "tabletop_object",
    "libero_goal": "tabletop_goal",
    "libero_10": "tabletop_long",
    "libero_90": "tabletop_90",
}
SUITES: tuple[str, ...] = tuple(_SAME_TASKS)
ORDERS: tuple[tuple[int, ...], ...] = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
    (4, 6, 8, 7, 3, 1, 2, 0, 9, 5),
    (6, 3, 5, 0, 4, 2, 9, 1, 8, 7),
    (7, 4, 3, 0, 8, 1, 2, 5, 9, 6),
    (4, 5, 6, 3, 8, 0, 2, 7, 1, 9),
    (1, 2, 3, 0, 6, 9, 5, 7, 4, 8),
    (3, 7, 8, 1, 6, 2, 9, 4, 0, 5),
    (4, 2, 9, 7, 6, 8, 5, 1, 3, 0),
    (1, 8, 5, 4, 0, 9, 6, 7, 2, 3),
    (8, 3, 6, 4, 9, 5, 1, 2, 0, 7),
    (6, 9, 0, 5, 7, 1, 2, 8, 3, 4),
    (6, 8, 3, 1, 0, 2, 5, 9, 7, 4),
    (8, 0, 6, 9, 4, 1, 7, 3, 2, 5),
    (3, 8, 6, 4, 2, 5, 0, 7, 1, 9),
    (7, 1, 5, 6, 3, 2, 8, 9, 4, 0),
    (2, 0, 9, 5, 3, 6, 8, 7, 1, 4),
    (3, 5, 9, 6, 2, 4, 8, 7, 1, 0),
    (7, 6, 5, 9, 0, 3, 4, 2, 8, 1),
    (2, 5, 0, 9, 3, 1, 6, 4, 8, 7),
    (3, 5, 1, 2, 7, 8, 6, 0, 4, 9),
    (3, 4, 1, 9, 7, 6, 8, 2, 0, 5),
)
"""LIBERO's orders of learning ten tasks, by its ``task_order_index``."""

ARM = 9
"""Joints of the robot: seven of the arm and two of the gripper, the first of every state."""
_JOINTS = {"wooden_cabinet": 3, "white_cabinet": 3, "flat_stove": 1, "microwave": 1}
_HEIGHTS = {
    "libero_tabletop_manipulation": 0.90,
    "libero_kitchen_tabletop_manipulation": 0.90,
    "libero_living_room_tabletop_manipulation": 0.41,
    "libero_study_tabletop_manipulation": 0.867,
    "libero_floor_manipulation": 0.0,
}


@dataclass(frozen=True)
class LiberoTask:
    """One task; suite and name together are unique, instructions are not.

    Args:
        suite: One of `SUITES`.
        name: LIBERO's file name without ending.
    """

    suite: str
    name: str

    @property
    def _entry(self) -> suites.TabletopTask:
        return suites.task(_SAME_TASKS[self.suite], self.name)

    @property
    def problem(self) -> Problem:
        """The parsed description."""
        return self._entry.problem

    @property
    def instruction(self) -> str:
        """The instruction that LIBERO gives its policies: the words of the file's name."""
        return self._entry.instruction

    @property
    def language(self) -> str:
        """The instruction written in the file, which differs in 29 of the 130."""
        return self.problem.language or ""

    @property
    def objects(self) -> tuple[str, ...]:
        """What can be moved about, in the order of the state."""
        return tuple(self.problem.objects)

    @property
    def joints(self) -> int:
        """Joints of fixtures: drawers, doors and knobs."""
        return sum(_JOINTS.get(category, 0) for category in self.problem.fixtures.values())

    @property
    def state_size(self) -> int:
        """Numbers of a simulator state: the time, positions and velocities.

        >>> tasks_of("libero_spatial")[0].state_size, tasks_of("libero_goal")[0].state_size
        (92, 79)
        """
        return 1 + 2 * ARM + 13 * len(self.objects) + 2 * self.joints

    @property
    def height(self) -> float:
        """Of the table's top above the floor, in meters."""
        return _HEIGHTS[self.problem.name.lower()]


@cache
def tasks_of(suite: str) -> tuple[LiberoTask, ...]:
    """The tasks of a suite in LIBERO's own order."""
    return tuple(LiberoTask(suite, entry.name) for entry in suites.tasks(_SAME_TASKS[suite]))


def in_order(suite: str, order: int | Sequence[int]) -> list[LiberoTask]:
    """The task of each experience.

    Args:
        suite: One of `SUITES`.
        order: LIBERO's ``task_order_index``, or the numbers of the tasks to learn; one may recur.

    Raises:
        SettingError: There is no such order, or no such task.
    """
    tasks = tasks_of(suite)
    if isinstance(order, int):
        last = 0 if suite == "libero_90" else len(ORDERS) - 1
        if not 0 <= order <= last:
            raise SettingError(
                f"stream.order of '{suite}' must be "
                + ("0" if last == 0 else f"one of LIBERO's orders 0 to {last}")
                + f" or a list of task numbers, got {order}"
            )
        return list(tasks) if last == 0 else [tasks[number] for number in ORDERS[order]]
    for number in order:
        if not 0 <= number < len(tasks):
            raise SettingError(
                f"stream.order: '{suite}' has tasks 0 to {len(tasks) - 1}, none of number {number}"
            )
    if not order:
        raise SettingError(f"stream.order of '{suite}' must name at least one task")
    return [tasks[number] for number in order]
