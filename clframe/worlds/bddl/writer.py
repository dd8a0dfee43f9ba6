"""From a problem back to text that parses to an equal problem."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from clframe.worlds.bddl.errors import BDDLError
from clframe.worlds.bddl.names import NameTable
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
    InitLiteral,
    Not,
    Or,
    Region,
)

_INDENT = "  "


def write(problem: Problem) -> str:
    """The text of a problem, in the layout of its dialect.

    Example:
        >>> from clframe.worlds.bddl import parse
        >>> text = '''(define (problem tidy) (:domain robosuite)
        ...   (:objects cup_1 - cup shelf_1 - shelf)
        ...   (:init) (:goal (and (On cup_1 shelf_1))))'''
        >>> parse(write(parse(text))).name
        'tidy'
    """
    lines = [f"(define (problem {problem.name})", f"{_INDENT}(:domain {problem.domain})"]
    if problem.requirements:
        lines.append(f"{_INDENT}(:requirements {' '.join(problem.requirements)})")
    if problem.libero:
        if problem.language is not None:
            lines.append(f"{_INDENT}(:language {problem.language})")
        lines += _section(":regions", (line for r in problem.regions for line in _region(r)))
        lines += _section(":fixtures", _typed(problem.fixtures))
    lines += _section(":objects", _typed(problem.objects))
    if problem.libero:
        lines += _section(":obj_of_interest", problem.obj_of_interest)
    lines += _section(":init", (_literal(entry) for entry in problem.init_literals))
    marked: frozenset[str] | None = frozenset() if problem.libero else None
    lines += _section(":goal", _formula(problem.goal.formula, marked))
    return "\n".join(lines) + "\n)\n"


def save(problem: Problem, path: Path) -> None:
    """Write a problem to a file, whole or not at all.

    Example:
        >>> import tempfile
        >>> from clframe.worlds.bddl import parse
        >>> text = '''(define (problem tidy) (:domain robosuite)
        ...   (:objects cup_1 - cup shelf_1 - shelf)
        ...   (:init) (:goal (and (On cup_1 shelf_1))))'''
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(parse(text), Path(folder) / "tidy.bddl")
        ...     again = parse(Path(folder) / "tidy.bddl")
        >>> again.name
        'tidy'
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name[:40]}.", delete=False
        ) as stream:
            stream.write(write(problem))
        os.chmod(stream.name, 0o644)
        os.replace(stream.name, path)
    except OSError as error:
        raise BDDLError(f"The file cannot be written: {error.strerror}.", path=str(path)) from None


def _section(name: str, lines: Iterable[str]) -> list[str]:
    inner = [_INDENT * 2 + line for line in lines]
    return [f"{_INDENT}({name}", *inner, f"{_INDENT})"]


def _typed(names: NameTable) -> list[str]:
    """Names in declared order, neighbors of one type on one line."""
    lines: list[str] = []
    run: list[str] = []
    kind = ""
    for name, type_ in names.items():
        if run and type_ != kind:
            lines.append(f"{' '.join(run)} - {kind}")
            run = []
        kind = type_
        run.append(name)
    if run:
        lines.append(f"{' '.join(run)} - {kind}")
    return lines


def _literal(entry: InitLiteral) -> str:
    atom = f"({' '.join(entry.literal)})"
    return atom if entry.positive else f"(not {atom})"


def _region(region: Region) -> list[str]:
    lines = [f"({region.name}", f"{_INDENT}(:target {region.target})"]
    if region.ranges:
        boxes = " ".join(_numbers(box) for box in region.ranges)
        lines.append(f"{_INDENT}(:ranges ({boxes}))")
    if region.yaw is not None:
        lines.append(f"{_INDENT}(:yaw_rotation ({_numbers(region.yaw)}))")
    if region.rgba is not None:
        lines.append(f"{_INDENT}(:rgba {_numbers(region.rgba)})")
    return [*lines, ")"]


def _numbers(values: Iterable[float]) -> str:
    return f"({' '.join(repr(value) for value in values)})"


def _formula(formula: Formula, marked: frozenset[str] | None) -> list[str]:
    """Lines of a formula; ``marked`` are the names that bear a '?', None for all of them."""

    def binder(part: Binder) -> str:
        return f"(?{part.variable} - {part.type})"

    def inner(part: Formula, *binders: Binder) -> list[str]:
        names = None if marked is None else marked | {item.variable for item in binders}
        return [_INDENT + line for line in _formula(part, names)]

    match formula:
        case Atom(predicate, terms):
            shown = [f"?{term}" if marked is None or term in marked else term for term in terms]
            return [f"({' '.join([predicate, *shown])})"]
        case And(parts):
            return ["(and", *(line for part in parts for line in inner(part)), ")"]
        case Or(parts):
            return ["(or", *(line for part in parts for line in inner(part)), ")"]
        case Not(part):
            return ["(not", *inner(part), ")"]
        case Imply(condition, conclusion):
            return ["(imply", *inner(condition), *inner(conclusion), ")"]
        case ForAll(bound, body):
            return [f"(forall {binder(bound)}", *inner(body, bound), ")"]
        case Exists(bound, body):
            return [f"(exists {binder(bound)}", *inner(body, bound), ")"]
        case ForN(count, bound, body):
            return [f"(forn ({count}) {binder(bound)}", *inner(body, bound), ")"]
        case ForPairs(count, first, second, body):
            head = "(forpairs" if count is None else f"(fornpairs ({count})"
            return [f"{head} {binder(first)} {binder(second)}", *inner(body, first, second), ")"]
