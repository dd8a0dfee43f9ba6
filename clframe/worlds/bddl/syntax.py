"""The syntax tree of goals and regions: immutable, with positions that equality ignores."""

from __future__ import annotations

from dataclasses import dataclass, field

from clframe.worlds.bddl.source import Position

Literal = tuple[str, ...]
"""A ground atom such as ``("ontop", "apple.n.01_1", "table.n.02_1")``, all in lower case."""

NOWHERE = Position(1, 1)


@dataclass(frozen=True, slots=True)
class Atom:
    """A predicate of terms; a term is the name of an object or of a bound variable."""

    predicate: str
    terms: tuple[str, ...]
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class And:
    """All of the parts."""

    parts: tuple[Formula, ...]
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of the parts."""

    parts: tuple[Formula, ...]
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Formula
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Imply:
    """Where the condition holds, so does the conclusion."""

    condition: Formula
    conclusion: Formula
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Binder:
    """A variable and the type whose instances it ranges over."""

    variable: str
    type: str


@dataclass(frozen=True, slots=True)
class ForAll:
    """The body holds for every instance."""

    binder: Binder
    body: Formula
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Exists:
    """The body holds for some instance."""

    binder: Binder
    body: Formula
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ForN:
    """The body holds for exactly ``count`` instances."""

    count: int
    binder: Binder
    body: Formula
    at: Position = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ForPairs:
    """The instances of two types pair up; ``count`` pairs, or as many as there can be if None."""

    count: int | None
    first: Binder
    second: Binder
    body: Formula
    at: Position = field(default=NOWHERE, compare=False, repr=False)


Formula = Atom | And | Or | Not | Imply | ForAll | Exists | ForN | ForPairs


@dataclass(frozen=True, slots=True)
class InitLiteral:
    """One literal of ``:init``."""

    literal: Literal
    positive: bool = True
    at: Position = field(default=NOWHERE, compare=False, repr=False)


Rectangle = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Region:
    """A region of LIBERO's dialect.

    With ``ranges`` it is one or more rectangles (x0, y0, x1, y1) in meters on its target; without,
    a named site of the target, such as the inside of a drawer.

    Example:
        >>> Region("drop", "table_1", ranges=((0.0, 0.0, 0.1, 0.1),)).target
        'table_1'
    """

    name: str
    target: str
    ranges: tuple[Rectangle, ...] = ()
    yaw: tuple[float, float] | None = None
    rgba: tuple[float, float, float, float] | None = None
    at: Position = field(default=NOWHERE, compare=False, repr=False)

    @property
    def full_name(self) -> str:
        """The name by which literals refer to the region."""
        return f"{self.target}_{self.name}"
