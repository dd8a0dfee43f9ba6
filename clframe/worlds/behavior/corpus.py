"""The published activities of BEHAVIOR-100 and BEHAVIOR-1K, which come with the package."""

from __future__ import annotations

import json
import lzma
from functools import cache
from importlib import resources

from clframe.errors import UnknownNameError, nearest
from clframe.worlds.bddl import BDDLError, Leniency, Problem, parse

CORPORA = {"b100": "BEHAVIOR-100", "b1k": "BEHAVIOR-1K"}
"""The corpora by the name of their folder: definitions of bddl 1.0.1 and 3.6.0 (MIT licence)."""


@cache
def _texts() -> dict[str, dict[str, str]]:
    file = resources.files(__package__) / "data" / "activities.json.xz"
    texts: dict[str, dict[str, str]] = json.loads(lzma.decompress(file.read_bytes()))
    return texts


def activities(corpus: str) -> tuple[str, ...]:
    """The names of a corpus's activities, in alphabetical order.

    >>> len(activities("b100")), len(activities("b1k"))
    (100, 1016)
    """
    if corpus not in CORPORA:
        raise UnknownNameError(f"There is no corpus {corpus!r}; {nearest(corpus, CORPORA)}")
    return tuple(_texts()[corpus])


@cache
def solved(corpus: str) -> tuple[str, ...]:
    """The activities that the planner solves (docs/results/behavior.md), in alphabetical order.

    >>> len(solved("b100")), len(solved("b1k"))
    (99, 924)
    """
    file = resources.files(__package__) / "data" / "unsolved.json"
    unsolved = set(json.loads(file.read_text(encoding="utf-8"))[corpus])
    return tuple(name for name in activities(corpus) if name not in unsolved)


def activity_text(corpus: str, name: str) -> str:
    """The published definition of an activity."""
    known = activities(corpus)
    if name not in known:
        raise UnknownNameError(
            f"{CORPORA[corpus]} has no activity {name!r}; {nearest(name, known)}"
        )
    return _texts()[corpus][name]


def load_activity(corpus: str, name: str) -> Problem:
    """Read a published activity; its quirks are let through as warnings.

    >>> load_activity("b100", "making_tea").name
    'making_tea_0'
    """
    return read_activity(activity_text(corpus, name), f"{corpus}/{name}/problem0.bddl")


def read_activity(text: str, path: str, lenient: Leniency = Leniency.ALL) -> Problem:
    """Read a definition; errors name the path."""
    try:
        problem = parse(text, lenient=lenient)
    except BDDLError as error:
        error.path = path
        raise
    problem.goal.path = path
    return problem
