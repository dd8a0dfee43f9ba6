"""A task description in plain words."""

from __future__ import annotations

from collections.abc import Iterable

from clframe.worlds.bddl.errors import BDDLError
from clframe.worlds.bddl.option_count import CAP
from clframe.worlds.bddl.problem import Problem
from clframe.worlds.bddl.syntax import (
    And,
    Atom,
    Binder,
    Exists,
    ForAll,
    Formula,
    ForN,
    ForPairs,
    Imply,
    Literal,
    Not,
    Or,
)

_PHRASES = {
    "on": "is on", "in": "is in", "ontop": "is on top of", "inside": "is inside",
    "onfloor": "is on", "under": "is under", "nextto": "is next to", "touching": "touches",
    "inroom": "is in the", "attached": "is attached to", "draped": "is draped over",
    "overlaid": "is laid over", "covered": "is covered with", "filled": "is filled with",
    "contains": "contains", "saturated": "is soaked with", "insource": "supplies",
    "grasped": "holds", "close": "is closed", "turnon": "is turned on", "turnoff": "is turned off",
    "toggled_on": "is switched on", "future": "does not exist yet", "real": "exists", "up": "is up",
}  # fmt: skip


def explain(problem: Problem) -> str:
    """What a task is about: what there is, what holds at the start, what must hold at the end.

    >>> from clframe.worlds.bddl.parser import parse
    >>> text = "(define (problem p) (:domain igibson) (:objects door.n.01_1 - door.n.01)"
    >>> print(
    ...     explain(parse(text + "(:init (open door.n.01_1)) (:goal (not (open ?door.n.01_1))))"))
    ... )
    p (BEHAVIOR, domain igibson)
    Things: 1 door.n.01
    At the start:
      door.n.01_1 is open
    At the end:
      it is not so that
        door.n.01_1 is open
    Ways to reach the goal: 1
    """
    dialect = "LIBERO" if problem.libero else "BEHAVIOR"
    lines = [f"{problem.name} ({dialect}, domain {problem.domain})"]
    if problem.language is not None:
        lines.append(f'Instruction: "{problem.language}"')
    lines.append(f"Things: {_counted(problem.objects.by_type())}")
    if problem.fixtures:
        lines.append(f"Fixtures: {_counted(problem.fixtures.by_type())}")
    if problem.obj_of_interest:
        lines.append(f"Of interest: {', '.join(problem.obj_of_interest)}")
    lines.append("At the start:")
    for entry in problem.init_literals:
        sentence = literal_words(entry.literal)
        lines.append(f"  {sentence}" if entry.positive else f"  it is not so that {sentence}")
    lines.append("At the end:")
    lines.extend(f"  {line}" for line in _formula(problem.goal.formula))
    lines.append(f"Ways to reach the goal: {_options(problem)}")
    lines.extend(f"Warning: {warning}" for warning in problem.warnings)
    return "\n".join(lines)


def literal_words(literal: Literal) -> str:
    """A literal as a sentence.

    >>> literal_words(("ontop", "apple.n.01_1", "table.n.02_1"))
    'apple.n.01_1 is on top of table.n.02_1'
    """
    predicate, subject, *rest = literal
    phrase = _PHRASES.get(predicate, f"is {predicate.replace('_', ' ')}")
    return " ".join([subject, phrase, *rest])


def _counted(groups: dict[str, tuple[str, ...]]) -> str:
    return ", ".join(f"{len(names)} {kind}" for kind, names in groups.items()) or "none"


def _options(problem: Problem) -> str:
    try:
        number = problem.goal.count_options()
    except BDDLError:
        return "too many to count"
    return f"{number}" if number < CAP else "more than 10^30"


def _formula(formula: Formula) -> list[str]:
    def indented(parts: Iterable[Formula]) -> list[str]:
        return [f"  {line}" for part in parts for line in _formula(part)]

    def every(binder: Binder) -> str:
        return f"{binder.type} (called {binder.variable})"

    match formula:
        case Atom(predicate, terms):
            return [literal_words((predicate, *terms))]
        case And(parts):
            return ["all of these:", *indented(parts)] if len(parts) != 1 else _formula(parts[0])
        case Or(parts):
            return ["at least one of these:", *indented(parts)]
        case Not(part):
            return ["it is not so that", *indented([part])]
        case Imply(condition, conclusion):
            return ["if", *indented([condition]), "then", *indented([conclusion])]
        case ForAll(binder, body):
            return [f"for every {every(binder)}:", *indented([body])]
        case Exists(binder, body):
            return [f"for at least one {every(binder)}:", *indented([body])]
        case ForN(count, binder, body):
            return [f"for exactly {count} of {every(binder)}:", *indented([body])]
        case ForPairs(count, first, second, body):
            number = "as many pairs as possible" if count is None else f"{count} pairs"
            return [f"for {number} of {every(first)} and {every(second)}:", *indented([body])]
