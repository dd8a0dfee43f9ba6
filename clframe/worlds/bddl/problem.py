"""What a task description says, as one immutable value."""

from __future__ import annotations

from dataclasses import dataclass, field

from clframe.worlds.bddl.errors import BDDLError
from clframe.worlds.bddl.goal import Goal
from clframe.worlds.bddl.names import NameTable
from clframe.worlds.bddl.syntax import InitLiteral, Literal, Region


@dataclass(frozen=True)
class Problem:
    """A parsed task description of either dialect.

    Args:
        name: The problem's name (BEHAVIOR: the activity; LIBERO: the arena).
        domain: The name given by ``:domain``.
        objects: Instance -> type of ``:objects``, in file order.
        init_literals: The literals of ``:init`` as written.
        goal: The goal, ready to be scored.
        requirements: The words of ``:requirements``, which have no effect.
        fixtures: LIBERO: instance -> category of what is fixed.
        regions: LIBERO: rectangles and sites.
        obj_of_interest: LIBERO: instances, or full names of regions.
        language: LIBERO: the instruction, in lower case; None if absent.
        libero: Whether the text is in LIBERO's dialect.
        warnings: Quirks that were let through, with their places.

    Example:
        >>> from clframe.worlds.bddl import parse
        >>> text = '''(define (problem tidy) (:domain robosuite)
        ...   (:objects cup_1 - cup shelf_1 - shelf)
        ...   (:init) (:goal (and (On cup_1 shelf_1))))'''
        >>> problem = parse(text)
        >>> problem.name, problem.domain
        ('tidy', 'robosuite')
    """

    name: str
    domain: str
    objects: NameTable
    init_literals: tuple[InitLiteral, ...]
    goal: Goal
    requirements: tuple[str, ...] = ()
    fixtures: NameTable = field(default_factory=NameTable)
    regions: tuple[Region, ...] = ()
    obj_of_interest: tuple[str, ...] = ()
    language: str | None = None
    libero: bool = False
    warnings: tuple[BDDLError, ...] = field(default=(), compare=False, repr=False)

    @property
    def init(self) -> tuple[Literal, ...]:
        """The literals that hold at the start, in file order."""
        return tuple(entry.literal for entry in self.init_literals if entry.positive)

    @property
    def init_false(self) -> tuple[Literal, ...]:
        """The literals that ``:init`` says do not hold at the start."""
        return tuple(entry.literal for entry in self.init_literals if not entry.positive)

    @property
    def initial_state(self) -> frozenset[Literal]:
        """The world at the start: closed, and without ``inroom``, which only selects a place."""
        return initial_state(self.init_literals)


def initial_state(literals: tuple[InitLiteral, ...]) -> frozenset[Literal]:
    """The positive literals of ``:init`` other than ``inroom``."""
    return frozenset(
        entry.literal for entry in literals if entry.positive and entry.literal[0] != "inroom"
    )
