"""The suites: lists of tasks, and the orders in which they can be learned.

Four suites have ten tasks each and are LIBERO's own (spatial, object, goal, long = LIBERO-10);
``tabletop_90`` is its pretraining suite; ``tabletop_generated`` is made by the task generator.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import TypeVar

from clframe.errors import SettingError, UnknownNameError, nearest
from clframe.worlds.bddl import BDDLError, Leniency, Problem, parse

_SPATIAL = "pick_up_the_black_bowl_{}_and_place_it_on_the_plate"
_OBJECT = "pick_up_the_{}_and_place_it_in_the_basket"
# LIBERO's order of learning, which is not the alphabetical one.
_ORDERED: dict[str, tuple[str, ...]] = {
    "libero_spatial": tuple(
        _SPATIAL.format(where)
        for where in (
            "between_the_plate_and_the_ramekin",
            "next_to_the_ramekin",
            "from_table_center",
            "on_the_cookie_box",
            "in_the_top_drawer_of_the_wooden_cabinet",
            "on_the_ramekin",
            "next_to_the_cookie_box",
            "on_the_stove",
            "next_to_the_plate",
            "on_the_wooden_cabinet",
        )
    ),
    "libero_object": tuple(
        _OBJECT.format(what)
        for what in (
            "alphabet_soup",
            "cream_cheese",
            "salad_dressing",
            "bbq_sauce",
            "ketchup",
            "tomato_sauce",
            "butter",
            "milk",
            "chocolate_pudding",
            "orange_juice",
        )
    ),
    "libero_goal": (
        "open_the_middle_drawer_of_the_cabinet",
        "put_the_bowl_on_the_stove",
        "put_the_wine_bottle_on_top_of_the_cabinet",
        "open_the_top_drawer_and_put_the_bowl_inside",
        "put_the_bowl_on_top_of_the_cabinet",
        "push_the_plate_to_the_front_of_the_stove",
        "put_the_cream_cheese_in_the_bowl",
        "turn_on_the_stove",
        "put_the_bowl_on_the_plate",
        "put_the_wine_bottle_on_the_rack",
    ),
    "libero_10": (
        "LIVING_ROOM_SCENE2_put_both_the_alphabet_soup_and_the_tomato_sauce_in_the_basket",
        "LIVING_ROOM_SCENE2_put_both_the_cream_cheese_box_and_the_butter_in_the_basket",
        "KITCHEN_SCENE3_turn_on_the_stove_and_put_the_moka_pot_on_it",
        "KITCHEN_SCENE4_put_the_black_bowl_in_the_bottom_drawer_of_the_cabinet_and_close_it",
        "LIVING_ROOM_SCENE5_put_the_white_mug_on_the_left_plate_"
        "and_put_the_yellow_and_white_mug_on_the_right_plate",
        "STUDY_SCENE1_pick_up_the_book_and_place_it_in_the_back_compartment_of_the_caddy",
        "LIVING_ROOM_SCENE6_put_the_white_mug_on_the_plate_"
        "and_put_the_chocolate_pudding_to_the_right_of_the_plate",
        "LIVING_ROOM_SCENE1_put_both_the_alphabet_soup_and_the_cream_cheese_box_in_the_basket",
        "KITCHEN_SCENE8_put_both_moka_pots_on_the_stove",
        "KITCHEN_SCENE6_put_the_yellow_and_white_mug_in_the_microwave_and_close_it",
    ),
}
_FOLDERS = {
    "tabletop_spatial": "libero_spatial",
    "tabletop_object": "libero_object",
    "tabletop_goal": "libero_goal",
    "tabletop_long": "libero_10",
    "tabletop_90": "libero_90",
}
GENERATED = "tabletop_generated"
FILES = "tabletop_files"
"""Task files of the user's own; see `clframe.worlds.tabletop.task_files`."""
SHIPPED: tuple[str, ...] = tuple(_FOLDERS)
SUITES: tuple[str, ...] = (*SHIPPED, GENERATED)


@dataclass(frozen=True)
class TabletopTask:
    """One task of a suite.

    Args:
        suite: Name of the suite.
        name: Unique within the suite; LIBERO's file name without ending.
        text: The task description.
    """

    suite: str
    name: str
    text: str

    @property
    def instruction(self) -> str:
        """The policy's instruction: LIBERO takes it from the file's name, not from ``:language``.

        Own files need not be named by what they ask for, so there ``:language`` is taken.

        >>> tasks("tabletop_goal")[7].instruction
        'turn on the stove'
        """
        if self.suite == FILES and self.problem.language:
            return self.problem.language
        return re.sub(r"^[A-Z_]+SCENE\d+_", "", self.name).replace("_", " ")

    @cached_property
    def problem(self) -> Problem:
        """The parsed description."""
        return parse(self.text, lenient=Leniency.ALL)


def tasks(suite: str, n: int = 10, seed: int = 0) -> tuple[TabletopTask, ...]:
    """The tasks of a suite in the suite's own order.

    Args:
        suite: One of `SUITES`.
        n: For the generated suite: how many tasks.
        seed: For the generated suite: which tasks.

    Raises:
        UnknownNameError: If there is no such suite.
    """
    if suite == GENERATED:
        return _generated(n, seed)
    if suite not in _FOLDERS:
        raise UnknownNameError(f"There is no tabletop suite '{suite}'; {nearest(suite, SUITES)}")
    return _shipped(suite)


def task(suite: str, name: str) -> TabletopTask:
    """A task by name or by number.

    Raises:
        UnknownNameError: If the suite has no such task.
    """
    suite_tasks = tasks(suite)
    if name.isdigit() and int(name) < len(suite_tasks):
        return suite_tasks[int(name)]
    for entry in suite_tasks:
        if entry.name == name:
            return entry
    names = [entry.name for entry in suite_tasks]
    raise UnknownNameError(f"The suite '{suite}' has no task '{name}'; {nearest(name, names)}")


@cache
def _shipped(suite: str) -> tuple[TabletopTask, ...]:
    folder = resources.files("clframe.worlds.tabletop") / "data" / _FOLDERS[suite]
    if _FOLDERS[suite] in _ORDERED:
        names = _ORDERED[_FOLDERS[suite]]
    else:
        names = tuple(sorted(file.name.removesuffix(".bddl") for file in folder.iterdir()))
    return tuple(
        TabletopTask(suite, name, (folder / f"{name}.bddl").read_text(encoding="utf-8"))
        for name in names
    )


@cache
def _generated(n: int, seed: int) -> tuple[TabletopTask, ...]:
    """The first n generated tasks that can be started; a longer list begins with a shorter one."""
    from clframe.worlds.bddl.generate import generate_tasks
    from clframe.worlds.bddl.writer import write

    kept: list[TabletopTask] = []
    tried, count = 0, n
    while len(kept) < n:
        drawn = generate_tasks("mixed", count, seed)
        for entry in drawn[tried:]:
            if _can_start(entry.problem):
                kept.append(TabletopTask(GENERATED, entry.name, write(entry.problem)))
        tried, count = count, count + max(4, n - len(kept))
    return tuple(kept[:n])


def _can_start(problem: Problem) -> bool:
    """Whether everything fits, for a few start states, and nothing is done already.

    The generator knows things as circles; an open drawer reaches further.
    """
    import numpy as np

    from clframe.worlds.tabletop.world import World

    try:
        world = World(problem)
        for seed in range(3):
            world.reset(np.random.default_rng(seed))
            if world.satisfied():
                return False
    except BDDLError:
        return False
    return True


Item = TypeVar("Item")


def _reversed(items: Sequence[Item]) -> list[Item]:
    return list(items[::-1])


def _odd_then_even(items: Sequence[Item]) -> list[Item]:
    return [*items[1::2], *items[::2]]


def _from_both_ends(items: Sequence[Item]) -> list[Item]:
    """First, last, second, last but one, and so on."""
    left, right = items[: (len(items) + 1) // 2], items[: (len(items) - 1) // 2 : -1]
    mixed = [item for pair in zip(left, right, strict=False) for item in pair]
    return mixed + list(left[len(right) :])


def _shuffled(number: int) -> Callable[[Sequence[Item]], list[Item]]:
    def shuffle(items: Sequence[Item]) -> list[Item]:
        mixed = list(items)
        random.Random(f"tabletop order {number}").shuffle(mixed)
        return mixed

    return shuffle


ORDERS: dict[str, Callable[[Sequence[TabletopTask]], list[TabletopTask]]] = {
    "default": list,
    "reversed": _reversed,
    "odd_then_even": _odd_then_even,
    "both_ends": _from_both_ends,
    **{f"shuffled{number}": _shuffled(number) for number in range(1, 21)},
}
"""Named orders of learning; LIBERO too has its own order and twenty permutations."""


def ordered(items: Sequence[TabletopTask], order: str) -> list[TabletopTask]:
    """The tasks in a named order.

    Raises:
        SettingError: If there is no such order.
    """
    if order not in ORDERS:
        raise SettingError(f"There is no order '{order}'; {nearest(order, ORDERS)}")
    return ORDERS[order](items)
