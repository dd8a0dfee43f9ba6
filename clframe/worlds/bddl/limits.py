"""What a reader accepts: limits on size, and leniencies for quirks of published files."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from clframe.errors import SettingError

# Reading a formula recurses once per level; this keeps every setting far from Python's own limit.
_DEEPEST = 200


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that keep reading and scoring fast on any input.

    Args:
        max_characters: Longest text that is read (the largest official file has 7,501).
        max_groups: Most pairs of parentheses (the official file with most has 132).
        max_words: Most words (the largest official files have a few hundred).
        max_depth: Deepest nesting of parentheses, at most 200 (the deepest official file has 8).
        max_ground_atoms: Most atoms a goal may have once its quantifiers are written out.
        max_option_literals: Most literals written out for a negated compound formula.
        max_search: Most steps taken where an atom of the goal occurs with both signs.

    Example:
        >>> Limits(max_characters=1000).max_characters  # of texts that strangers send
        1000
    """

    max_characters: int = 500_000
    max_groups: int = 10_000
    max_words: int = 20_000
    max_depth: int = 64
    max_ground_atoms: int = 50_000
    max_option_literals: int = 100_000
    max_search: int = 5_000_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise SettingError(f"{name} must be a whole number from 1 up, not {value!r}.")
        if self.max_depth > _DEEPEST:
            raise SettingError(f"max_depth must be at most {_DEEPEST}, not {self.max_depth}.")


class Leniency(enum.Flag):
    """Quirks of the published corpora that may be let through, each with a warning.

    The first five leave no doubt about the meaning and are on by default. The others repair the
    text the way the reference reads it, which loses something, so they must be asked for.

    Example:
        >>> Leniency.DEFAULT == Leniency(31)
        True
    """

    STRICT = 0
    WILDCARDS = enum.auto()
    """``cabinet.n.01_*`` in ``:objects`` and ``inroom``: instances that a scene supplies."""
    REPEATED_INIT = enum.auto()
    """The same ``:init`` literal twice."""
    DANGLING_REGIONS = enum.auto()
    """A region of a target that is declared nowhere, as long as nothing refers to it."""
    UNKNOWN_DOMAIN = enum.auto()
    """A domain this package does not ship: predicates are then only checked for steady arity."""
    OTHER_DOMAIN = enum.auto()
    """A vocabulary other than the one that ``:domain`` names, or than that of the problem."""
    REPEATED_OBJECTS = enum.auto()
    """An instance declared twice under one type; it counts once."""
    EXTRA_GOALS = enum.auto()
    """``(:goal A B)``: the first formula is the goal, the others are dropped."""
    STRAY_WORDS = enum.auto()
    """Bare words between sections are skipped."""

    DEFAULT = WILDCARDS | REPEATED_INIT | DANGLING_REGIONS | UNKNOWN_DOMAIN | OTHER_DOMAIN
    ALL = DEFAULT | REPEATED_OBJECTS | EXTRA_GOALS | STRAY_WORDS
