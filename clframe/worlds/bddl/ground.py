"""Goals written out over the objects, and whether they hold.

A ground formula is a flat list of nodes, children before parents, so that evaluating one is a loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import IntEnum

from clframe.worlds.bddl.syntax import (
    And,
    Atom,
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


class Kind(IntEnum):
    """What a node demands of its children."""

    ATOM = 0
    ALL = 1
    ANY = 2
    NOT = 3
    EXACTLY = 4
    """Exactly ``count`` children."""
    PAIRS = 5
    """``count`` pairs in a matrix of ``width`` columns, given row by row."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a ground formula; children are indices of earlier nodes."""

    kind: Kind
    atom: Literal = ()
    children: tuple[int, ...] = ()
    count: int = 0
    width: int = 0


def ground(formula: Formula, types: Mapping[str, tuple[str, ...]]) -> tuple[Node, ...]:
    """Write out quantifiers over the instances of their types; the last node is the root."""
    grounder = _Grounder(types)
    grounder.add(formula, {})
    return tuple(grounder.nodes)


class _Grounder:
    def __init__(self, types: Mapping[str, tuple[str, ...]]) -> None:
        self.types = types
        self.nodes: list[Node] = []

    def add(self, formula: Formula, bound: dict[str, str]) -> int:
        """Add a formula under an assignment of variables; the result is its index."""
        match formula:
            case Atom(predicate, terms):
                node = Node(Kind.ATOM, (predicate, *(bound.get(term, term) for term in terms)))
            case And(parts):
                node = Node(Kind.ALL, children=tuple(self.add(part, bound) for part in parts))
            case Or(parts):
                node = Node(Kind.ANY, children=tuple(self.add(part, bound) for part in parts))
            case Not(part):
                node = Node(Kind.NOT, children=(self.add(part, bound),))
            case Imply(condition, conclusion):
                self.nodes.append(Node(Kind.NOT, children=(self.add(condition, bound),)))
                refuted = len(self.nodes) - 1
                node = Node(Kind.ANY, children=(refuted, self.add(conclusion, bound)))
            case ForAll(binder, body):
                node = Node(
                    Kind.ALL, children=self._each(binder.variable, binder.type, body, bound)
                )
            case Exists(binder, body):
                node = Node(
                    Kind.ANY, children=self._each(binder.variable, binder.type, body, bound)
                )
            case ForN(count, binder, body):
                children = self._each(binder.variable, binder.type, body, bound)
                node = Node(Kind.EXACTLY, children=children, count=count)
            case ForPairs():
                node = self._pairs(formula, bound)
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _each(
        self, variable: str, kind: str, body: Formula, bound: dict[str, str]
    ) -> tuple[int, ...]:
        return tuple(self.add(body, {**bound, variable: name}) for name in self.types[kind])

    def _pairs(self, formula: ForPairs, bound: dict[str, str]) -> Node:
        rows = []
        for first in self.types[formula.first.type]:
            row = []
            for second in self.types[formula.second.type]:
                # Over one type the reference leaves out an object's pair with itself and closes up
                # the row; this follows it, although columns then no longer stand for one object.
                if first != second:
                    inner = {
                        **bound,
                        formula.first.variable: first,
                        formula.second.variable: second,
                    }
                    row.append(self.add(formula.body, inner))
            rows.append(row)
        width = len(rows[0]) if rows else 0
        count = min(len(rows), width) if formula.count is None else formula.count
        children = tuple(child for row in rows for child in row)
        return Node(Kind.PAIRS, children=children, count=count, width=width)


def truth(nodes: tuple[Node, ...], true_literals: Set[Literal]) -> list[bool]:
    """The truth of every node in a closed world, as the reference decides success.

    ``forn`` means exactly N. ``forpairs`` means that at least N rows and at least N columns of the
    matrix have a true cell, which is weaker than N disjoint pairs.
    """
    values: list[bool] = []
    for node in nodes:
        kind = node.kind
        if kind is Kind.ATOM:
            values.append(node.atom in true_literals)
        elif kind is Kind.ALL:
            values.append(all(values[child] for child in node.children))
        elif kind is Kind.ANY:
            values.append(any(values[child] for child in node.children))
        elif kind is Kind.NOT:
            values.append(not values[node.children[0]])
        elif kind is Kind.EXACTLY:
            values.append(sum(values[child] for child in node.children) == node.count)
        else:
            cells = [values[child] for child in node.children]
            width = node.width
            rows = sum(any(cells[i : i + width]) for i in range(0, len(cells), width or 1))
            columns = sum(any(cells[i::width]) for i in range(width))
            values.append(rows >= node.count and columns >= node.count)
    return values
