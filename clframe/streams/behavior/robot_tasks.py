"""How the environments and the expert of a stream's activities are made.

Light on purpose: worker processes import it and have no use for torch; Gymnasium is needed only
where an environment is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from clframe.worlds.bddl import Leniency, Problem
from clframe.worlds.behavior.corpus import load_activity, read_activity
from clframe.worlds.behavior.layout import Primitives

if TYPE_CHECKING:
    from clframe.streams.behavior.choices import ChoiceEnv

MEASURES = ("q", "success", "steps")
"""What every episode is measured by."""
_OWN = Leniency.WILDCARDS | Leniency.REPEATED_INIT
"""What is let through in files of a user."""
Source = tuple[str, str]
"""(corpus, name) of a published activity, or (text, path) of another."""


@cache
def problem_of(source: Source, published: bool) -> Problem:
    """The definition of an activity, read once in a process.

    Published texts have quirks that are let through; those of a user are read strictly.
    """
    return load_activity(*source) if published else read_activity(*source, lenient=_OWN)


def environment(
    source: Source,
    published: bool,
    horizon: int,
    slots: int,
    primitives: Primitives,
    record: bool = False,
    physics: bool = False,
) -> ChoiceEnv:
    """The environment of an activity."""
    made: type[ChoiceEnv]
    if physics:
        from clframe.streams.behavior.physics_choices import PhysicalChoiceEnv as made
    else:
        from clframe.streams.behavior.choices import ChoiceEnv as made
    return made(problem_of(source, published), horizon, slots, primitives, record)


def expert(environment: Any) -> Iterator[int]:
    """The planner's way, as choices."""
    from clframe.worlds.behavior.planner.search import require

    for verb, slot in require(environment.instance).steps:
        yield environment.layout.number(verb, slot)


def physical_expert(environment: Any) -> Iterator[int]:
    """The planner's way with physics, made anew after what fails, as choices."""
    from clframe.streams.behavior.physics_choices import choices

    return choices(environment)
