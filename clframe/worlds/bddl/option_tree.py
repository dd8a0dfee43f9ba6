"""Ground options: the conjunctions of literals that a goal can be reached by.

The options of a goal are the conjunctions of its disjunctive normal form. Here they are kept
folded: a tree of choices, never a list, because some goals have 10^12 of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from clframe.worlds.bddl.syntax import Literal

Signed = tuple[Literal, bool]
"""A literal and whether it must be true."""


class Choice(IntEnum):
    """How the options of a node arise from those of its children."""

    LITERAL = 0
    JOIN = 1
    """One option of each child."""
    PICK = 2
    """One option of one child."""
    CHOOSE = 3
    """One option of each of ``count`` children."""
    MATCH = 4
    """One option of each of ``count`` cells, no two in one row or column."""


@dataclass(frozen=True, slots=True)
class OptionNode:
    """One node of folded options; children are indices of earlier nodes.

    A MATCH lists the cells of its table row by row, ``width`` to a row.
    """

    choice: Choice
    literal: Signed = ((), True)
    children: tuple[int, ...] = ()
    count: int = 0
    width: int = 0


Options = tuple[OptionNode, ...]
"""A tree of choices, children before parents; the last node is the root."""


def consistent(option: Sequence[Signed]) -> bool:
    """Whether an option does not ask for a literal and its negation.

    >>> consistent([(("open", "door_1"), True), (("open", "door_1"), False)])
    False
    """
    wanted: dict[Literal, bool] = {}
    return all(wanted.setdefault(atom, sign) == sign for atom, sign in option)
