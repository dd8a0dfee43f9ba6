"""From a ground formula to its folded options."""

from __future__ import annotations

from clframe.worlds.bddl.errors import BDDLError
from clframe.worlds.bddl.ground import Kind, Node
from clframe.worlds.bddl.limits import Limits
from clframe.worlds.bddl.option_list import list_options
from clframe.worlds.bddl.option_tree import Choice, OptionNode, Options

_SAME = {
    Kind.ALL: Choice.JOIN,
    Kind.ANY: Choice.PICK,
    Kind.EXACTLY: Choice.CHOOSE,
    Kind.PAIRS: Choice.MATCH,
}


def fold(nodes: tuple[Node, ...], limits: Limits) -> Options:
    """The folded options of a ground formula.

    All connectives but the negation of a compound keep their shape. The options of a negation take
    one negated literal out of each option of what is negated (De Morgan), so those are written out.

    Raises:
        BDDLError: If writing them out takes more than ``limits.max_option_literals``.
    """
    folder = _Folder(nodes, limits.max_option_literals)
    folder.add(len(nodes) - 1, folder.result)
    return tuple(folder.result)


class _Folder:
    def __init__(self, nodes: tuple[Node, ...], limit: int) -> None:
        self.nodes = nodes
        self.limit = limit
        self.written = 0
        self.result: list[OptionNode] = []

    def add(self, index: int, into: list[OptionNode]) -> int:
        """Append the options of a node to a tree; the result is their index there."""
        node = self.nodes[index]
        if node.kind is Kind.ATOM:
            return _append(into, OptionNode(Choice.LITERAL, (node.atom, True)))
        if node.kind is Kind.NOT:
            return self._negated(node.children[0], into)
        children = tuple(self.add(child, into) for child in node.children)
        choice = _SAME[node.kind]
        return _append(into, OptionNode(choice, ((), True), children, node.count, node.width))

    def _negated(self, index: int, into: list[OptionNode]) -> int:
        node = self.nodes[index]
        if node.kind is Kind.ATOM:
            return _append(into, OptionNode(Choice.LITERAL, (node.atom, False)))
        inner: list[OptionNode] = []
        self.add(index, inner)
        parts = []
        for option in list_options(inner):
            self.written += len(option) + 1
            if self.written > self.limit:
                raise BDDLError(
                    f"A negated part of the goal needs more than {self.limit} literals "
                    "(max_option_literals) to be written out, so its score cannot be computed."
                )
            flipped = tuple(
                _append(into, OptionNode(Choice.LITERAL, (atom, not sign))) for atom, sign in option
            )
            parts.append(_append(into, OptionNode(Choice.PICK, children=flipped)))
        return _append(into, OptionNode(Choice.JOIN, children=tuple(parts)))


def _append(nodes: list[OptionNode], node: OptionNode) -> int:
    nodes.append(node)
    return len(nodes) - 1
