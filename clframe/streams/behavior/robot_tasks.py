"""Create the environments and the expert of a stream's activities.

Worker processes import this module, so it does not import torch. Gymnasium is imported only when
an environment is created.
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
"""The measures of every episode."""
_OWN = Leniency.WILDCARDS | Leniency.REPEATED_INIT
"""The leniency for a user's files."""
Source = tuple[str, str]
"""(corpus, name) of a published activity, or (text, path) of another."""


@cache
def problem_of(source: Source, published: bool) -> Problem:
    """Return the definition of an activity, cached per process.

    Known quirks of published texts are accepted; a user's texts are parsed strictly.
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
    """Return the environment of an activity."""
    env_class: type[ChoiceEnv]
    if physics:
        from clframe.streams.behavior.physics_choices import PhysicalChoiceEnv as env_class
    else:
        from clframe.streams.behavior.choices import ChoiceEnv as env_class
    return env_class(problem_of(source, published), horizon, slots, primitives, record)


def expert(environment: Any) -> Iterator[int]:
    """Yield the planner's plan as choices."""
    from clframe.worlds.behavior.planner.search import require

    for verb, slot in require(environment.instance).steps:
        yield environment.layout.number(verb, slot)


def physical_expert(environment: Any) -> Iterator[int]:
    """Yield the planner's plan with physics as choices; it replans after a failure."""
    from clframe.streams.behavior.physics_choices import choices

    return choices(environment)
