"""The best set of N disjoint pairs in a table of values (the assignment problem)."""

from __future__ import annotations

from collections.abc import Sequence


def best_pairs(
    values: Sequence[Sequence[int | None]], pairs: int
) -> tuple[int, list[tuple[int, int]]] | None:
    """Choose exactly ``pairs`` cells, no two in one row or column, with the largest sum.

    Rows and columns that stay unpaired are paired with dummies of value 0, which makes it a square
    assignment problem; that is solved by the Hungarian method (Kuhn 1955; shortest augmenting
    paths with potentials), exact in whole numbers.

    Args:
        values: Rows of equal length; None marks a cell that must not be chosen.
        pairs: How many cells to choose.

    Returns:
        The sum and the chosen cells as (row, column), or None if there is no such choice.

    >>> best_pairs([[3, 2], [2, 0]], 2)
    (4, [(0, 1), (1, 0)])
    """
    rows = len(values)
    columns = len(values[0]) if values else 0
    if pairs > min(rows, columns):
        return None
    if pairs == 0:
        return 0, []
    size = rows + columns - pairs
    largest = max((abs(cell) for row in values for cell in row if cell is not None), default=0)
    # One forbidden cell must cost more than any allowed choice can make good.
    forbidden = 2 * largest * size + 1
    cost = []
    for row in values:
        cost.append([forbidden if cell is None else -cell for cell in row] + [0] * (rows - pairs))
    for _ in range(columns - pairs):
        cost.append([0] * columns + [forbidden] * (rows - pairs))
    owner = _assign(cost, size)
    chosen = sorted((owner[column], column) for column in range(columns) if owner[column] < rows)
    total = 0
    for row_index, column in chosen:
        cell = values[row_index][column]
        if cell is None:
            return None
        total += cell
    # A dummy on a dummy leaves more than the wanted number of pairs; it costs `forbidden`.
    return (total, chosen) if len(chosen) == pairs else None


def _assign(cost: Sequence[Sequence[int]], size: int) -> list[int]:
    """The row given to each column in a cheapest perfect assignment of a square table."""
    row_price = [0] * (size + 1)
    column_price = [0] * (size + 1)
    owner = [-1] * (size + 1)  # the last place is a column outside the table, where a search starts
    infinity = 1 + 4 * (size + 1) * (1 + max(abs(cell) for row in cost for cell in row))
    for new_row in range(size):
        owner[size] = new_row
        slack = [infinity] * size
        previous = [size] * size
        visited = [False] * (size + 1)
        current = size
        while owner[current] != -1:
            visited[current] = True
            row = owner[current]
            step, nearest = infinity, -1
            row_cost, price = cost[row], row_price[row]
            for column in range(size):
                if visited[column]:
                    continue
                reduced = row_cost[column] - price - column_price[column]
                if reduced < slack[column]:
                    slack[column], previous[column] = reduced, current
                if slack[column] < step:
                    step, nearest = slack[column], column
            for column in range(size + 1):
                if visited[column]:
                    row_price[owner[column]] += step
                    column_price[column] -= step
                elif column < size:
                    slack[column] -= step
            current = nearest
        while current != size:
            owner[current] = owner[previous[current]]
            current = previous[current]
        owner[size] = -1
    return owner[:size]
