"""How many options there are, by counting and not by listing."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, perm

from clframe.worlds.bddl.errors import BDDLError
from clframe.worlds.bddl.option_tree import Choice, OptionNode

CAP = 10**30
"""Counts are exact up to here; a larger number is given as this one."""

# Counting matchings of unlike cells takes 2^n steps, choosing among unlike children n * k.
_WIDEST_MATCH = 14
_LARGEST_CHOICE = 2_000_000


def option_counts(nodes: Sequence[OptionNode]) -> list[int]:
    """The number of options of every node, contradictory ones included, at most `CAP` each.

    Raises:
        BDDLError: If unlike parts make counting itself too long.
    """
    totals: list[int] = []
    for node in nodes:
        counts = [totals[child] for child in node.children]
        match node.choice:
            case Choice.LITERAL:
                total = 1
            case Choice.JOIN:
                total = _product(counts)
            case Choice.PICK:
                total = sum(counts)
            case Choice.CHOOSE:
                total = _chosen(counts, node.count)
            case Choice.MATCH:
                total = _matched(counts, node.width, node.count)
        totals.append(min(total, CAP))
    return totals


def _product(numbers: list[int]) -> int:
    total = 1
    for number in numbers:
        # A zero may still follow, so a large product is capped and not returned at once.
        total = min(total * number, CAP)
    return total


def _chosen(numbers: list[int], count: int) -> int:
    """The sum over all sets of ``count`` numbers of their products."""
    if count > len(numbers):
        return 0
    if len(set(numbers)) <= 1:
        return comb(len(numbers), count) * _product(numbers[:count])
    if len(numbers) * count > _LARGEST_CHOICE:
        raise BDDLError(f"Choosing {count} of {len(numbers)} unlike parts is too long to count.")
    ways = [1] + [0] * count
    for number in numbers:
        for chosen in range(count, 0, -1):
            ways[chosen] = min(ways[chosen] + ways[chosen - 1] * number, CAP)
    return ways[count]


def _matched(cells: list[int], width: int, pairs: int) -> int:
    """The sum over all sets of disjoint pairs of the products of their cells."""
    height = len(cells) // width if width else 0
    if len(set(cells)) <= 1:
        return comb(height, pairs) * perm(width, pairs) * _product(cells[:1] * pairs)
    if min(height, width) > _WIDEST_MATCH:
        raise BDDLError(f"Unlike pairs of more than {_WIDEST_MATCH} objects are too long to count.")
    rows = [cells[i : i + width] for i in range(0, len(cells), width)]
    if height < width:
        rows = [list(column) for column in zip(*rows, strict=True)]
    ways: dict[int, int] = {0: 1}  # set of taken columns, as bits -> number of ways
    for row in rows:
        after = dict(ways)
        for taken, number in ways.items():
            if taken.bit_count() == pairs:
                continue
            for column, cell in enumerate(row):
                if cell and not taken >> column & 1:
                    key = taken | 1 << column
                    after[key] = after.get(key, 0) + number * cell
        ways = after
    return sum(number for taken, number in ways.items() if taken.bit_count() == pairs)
