"""Options listed one by one, without ever running into a dead end for long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations

from clframe.worlds.bddl.assignment import best_pairs
from clframe.worlds.bddl.option_count import option_counts
from clframe.worlds.bddl.option_tree import Choice, OptionNode, Signed

Option = tuple[Signed, ...]


def list_options(nodes: Sequence[OptionNode]) -> Iterator[Option]:
    """List options lazily, contradictory ones included."""
    counts = option_counts(nodes)
    return _Lister(nodes, counts).of(len(nodes) - 1)


class _Lister:
    """Lists options; ``counts`` tells which nodes have any, so that no choice is tried in vain."""

    def __init__(self, nodes: Sequence[OptionNode], counts: list[int]) -> None:
        self.nodes = nodes
        self.counts = counts

    def of(self, index: int) -> Iterator[Option]:
        node = self.nodes[index]
        if node.choice is Choice.LITERAL:
            yield (node.literal,)
        elif self.counts[index]:
            for chosen in self._selections(node):
                yield from self._joined(chosen)

    def _selections(self, node: OptionNode) -> Iterator[Sequence[int]]:
        """The sets of children, all with options, of which a node joins one option each."""
        if node.choice is Choice.JOIN:
            yield node.children
        elif node.choice is Choice.MATCH:
            width = node.width
            height = len(node.children) // width if width else 0
            open_cells = [
                [bool(self.counts[node.children[row * width + column]]) for column in range(width)]
                for row in range(height)
            ]
            for cells in matchings(open_cells, width, node.count):
                yield [node.children[row * width + column] for row, column in cells]
        else:
            live = [child for child in node.children if self.counts[child]]
            yield from combinations(live, 1 if node.choice is Choice.PICK else node.count)

    def _joined(self, chosen: Sequence[int]) -> Iterator[Option]:
        """One option of each chosen node, in every combination, holding only one at a time."""
        if all(self.nodes[index].choice is Choice.LITERAL for index in chosen):
            yield tuple(self.nodes[index].literal for index in chosen)
            return
        running = [self.of(chosen[0])]
        heads: list[Option] = []
        while running:
            head = next(running[-1], None)
            if head is None:
                running.pop()
                if heads:
                    heads.pop()
            elif len(running) == len(chosen):
                yield tuple(literal for part in (*heads, head) for literal in part)
            else:
                heads.append(head)
                running.append(self.of(chosen[len(running)]))


def matchings(
    open_cells: Sequence[Sequence[bool]], width: int, pairs: int
) -> Iterator[list[tuple[int, int]]]:
    """Every set of ``pairs`` open cells of a table with no two in one row or column.

    >>> len(list(matchings([[True] * 3] * 3, 3, 2)))
    18
    >>> list(matchings([[True, False], [True, True]], 2, 2))
    [[(0, 0), (1, 1)]]
    """
    rows = range(len(open_cells))
    if all(all(row) for row in open_cells):
        for chosen_rows in combinations(rows, pairs):
            for chosen_columns in permutations(range(width), pairs):
                yield list(zip(chosen_rows, chosen_columns, strict=True))
        return
    # Row by row, continuing only where the rest can still be completed.
    waiting: list[tuple[int, list[tuple[int, int]]]] = [(0, [])]
    while waiting:
        row, cells = waiting.pop()
        if len(cells) == pairs:
            yield cells
            continue
        taken = {column for _, column in cells}
        rest = [
            [0 if cell and column not in taken else None for column, cell in enumerate(line)]
            for line in open_cells[row:]
        ]
        if best_pairs(rest, pairs - len(cells)) is None:
            continue
        waiting.append((row + 1, cells))
        for column in reversed(range(width)):
            if rest[0][column] is not None:
                waiting.append((row + 1, [*cells, (row, column)]))
