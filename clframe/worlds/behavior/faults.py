"""Where in an activity's text a fault is."""

from __future__ import annotations

from clframe.worlds.bddl import BDDLError, Problem
from clframe.worlds.bddl.syntax import (
    And,
    Atom,
    Exists,
    ForAll,
    Formula,
    ForN,
    ForPairs,
    Imply,
    InitLiteral,
    Literal,
    Not,
    Or,
)


class ActivityError(BDDLError):
    """An activity cannot be set up or reached in a household."""


def at_literal(problem: Problem, entry: InitLiteral, sentence: str) -> ActivityError:
    """An error at a literal of ``:init``."""
    return ActivityError(sentence, entry.at.line, entry.at.column, problem.goal.path)


def at_object(problem: Problem, name: str, sentence: str) -> ActivityError:
    """An error at the first literal of ``:init`` that names an object, else at the goal."""
    for entry in problem.init_literals:
        if name in entry.literal[1:]:
            return at_literal(problem, entry, sentence)
    at = problem.goal.formula.at
    return ActivityError(sentence, at.line, at.column, problem.goal.path)


def at_goal(problem: Problem, atom: Literal, sentence: str) -> ActivityError:
    """An error at the part of the goal that a ground atom comes from."""
    at = problem.goal.formula.at
    types = problem.objects
    waiting: list[Formula] = [problem.goal.formula]
    while waiting:
        part = waiting.pop()
        match part:
            case Atom(predicate, terms) if predicate == atom[0] and len(terms) == len(atom) - 1:
                fits = all(
                    term == name or term == types.get(name)
                    for term, name in zip(terms, atom[1:], strict=True)
                )
                if fits:
                    at = part.at
                    break
            case And(parts) | Or(parts):
                waiting.extend(reversed(parts))
            case Not(inner):
                waiting.append(inner)
            case Imply(condition, conclusion):
                waiting.extend((conclusion, condition))
            case ForAll() | Exists() | ForN() | ForPairs():
                waiting.append(part.body)
            case _:
                pass
    return ActivityError(sentence, at.line, at.column, problem.goal.path)
