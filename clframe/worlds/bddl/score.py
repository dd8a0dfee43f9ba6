"""The exact success score Q, without listing options.

BEHAVIOR (Srivastava et al. 2021) defines Q as the maximum over ground options C of
(true literals of C) / (literals of C). Both counts add up over the parts of an option, so the
maximum of the quotient is a fractional program: for a guess p/q, the option that maximizes
q * (true literals) - p * (literals) is found bottom up in one pass, and its quotient is the next
guess (Dinkelbach 1967). The passes are exact in whole numbers, and the guess rises until
nothing beats it.

Where an atom occurs with both signs, the best option may contradict itself. Then the two cases
"without the atom" and "without its negation" are searched, best bound first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from fractions import Fraction
from itertools import count as counter

from clframe.worlds.bddl.assignment import best_pairs
from clframe.worlds.bddl.errors import BDDLError
from clframe.worlds.bddl.limits import Limits
from clframe.worlds.bddl.option_tree import Choice, OptionNode, Options, Signed, consistent

Counts = Callable[[Signed], bool]
"""Whether a literal earns its point."""


def best_fraction(options: Options, earns: Counts, limits: Limits) -> Fraction | None:
    """The largest share of literals that earn a point, over all options without contradiction.

    Returns:
        The share, 1 if an option asks for nothing, or None if every option contradicts itself.

    Raises:
        BDDLError: If contradictions make the search longer than ``limits.max_search`` steps.
    """
    best = best_option(options, earns, limits)
    return None if best is None else best[0]


def best_option(
    options: Options, earns: Counts, limits: Limits, without: frozenset[Signed] = frozenset()
) -> tuple[Fraction, list[Signed]] | None:
    """The largest share, as in `best_fraction`, and an option that has it.

    Args:
        options: The folded options.
        earns: Whether a literal earns its point.
        limits: Bounds on the search.
        without: Literals that the option must not ask for.
    """
    literals = {node.literal for node in options if node.choice is Choice.LITERAL}
    points = {literal: int(earns(literal)) for literal in literals}
    if all((atom, not sign) not in literals for atom, sign in literals):
        return _best_relaxed(options, points, without)
    return _search(options, points, limits, without)


def _search(
    options: Options, points: dict[Signed, int], limits: Limits, without: frozenset[Signed]
) -> tuple[Fraction, list[Signed]] | None:
    """Branch on contradictory atoms, best bound first; the first clean option is the best."""
    order = counter()
    heap: list[tuple[Fraction, int, int, list[Signed], frozenset[Signed]]] = []

    def push(banned: frozenset[Signed]) -> None:
        best = _best_relaxed(options, points, banned)
        if best is not None:
            share, option = best
            # Among equal bounds the deepest case first: it is nearest to being settled.
            heapq.heappush(heap, (-share, -len(banned), next(order), option, banned))

    push(without)
    steps = len(options)
    while heap:
        share, _, _, option, banned = heapq.heappop(heap)
        if consistent(option):
            return -share, option
        asked = set(option)
        atom = min(atom for atom, sign in asked if sign and (atom, False) in asked)
        for sign in (True, False):
            push(banned | {(atom, sign)})
        steps += 2 * len(options)
        if steps > limits.max_search:
            raise BDDLError(
                "The goal asks for atoms and their negations in too many combinations to score "
                f"exactly within {limits.max_search} steps (max_search)."
            )
    return None


def _best_relaxed(
    options: Options, points: dict[Signed, int], banned: frozenset[Signed]
) -> tuple[Fraction, list[Signed]] | None:
    """The best share and an option that has it, contradictions allowed, banned literals not."""
    shortest = _extreme(options, dict.fromkeys(points, -1), banned)
    if shortest is None:
        return None
    if not shortest:
        return Fraction(1), []
    best = shortest
    share = Fraction(sum(points[literal] for literal in best), len(best))
    while True:
        gains = {
            literal: share.denominator * point - share.numerator
            for literal, point in points.items()
        }
        option = _extreme(options, gains, banned)
        assert option is not None  # the same options were feasible before
        if sum(gains[literal] for literal in option) <= 0:
            return share, best
        best = option
        share = Fraction(sum(points[literal] for literal in best), len(best))


def _extreme(
    options: Options, gains: dict[Signed, int], banned: frozenset[Signed]
) -> list[Signed] | None:
    """The option whose literals have the largest total gain, or None if there is none."""
    values: list[int | None] = []
    chosen: list[list[int] | None] = []
    for node in options:
        if node.choice is Choice.LITERAL:
            values.append(None if node.literal in banned else gains[node.literal])
            chosen.append(None)
            continue
        value, children = _best_children(node, values)
        values.append(value)
        chosen.append(children)
    if values[-1] is None:
        return None
    option: list[Signed] = []
    waiting = [len(options) - 1]
    while waiting:
        index = waiting.pop()
        children = chosen[index]
        if children is None:
            option.append(options[index].literal)
        else:
            waiting.extend(children)
    return option


def _best_children(
    node: OptionNode, values: list[int | None]
) -> tuple[int | None, list[int] | None]:
    """The best sum over the children a node may join, and which children they are."""
    if node.choice is Choice.JOIN:
        total = 0
        for child in node.children:
            value = values[child]
            if value is None:
                return None, None
            total += value
        return total, list(node.children)
    if node.choice is Choice.MATCH:
        width = node.width
        cells = [values[child] for child in node.children]
        rows = [cells[i : i + width] for i in range(0, len(cells), width or 1)]
        pairs = best_pairs(rows, node.count)
        if pairs is None:
            return None, None
        return pairs[0], [node.children[row * width + column] for row, column in pairs[1]]
    wanted = 1 if node.choice is Choice.PICK else node.count
    feasible = [(value, child) for child in node.children if (value := values[child]) is not None]
    if len(feasible) < wanted:
        return None, None
    best = heapq.nlargest(wanted, feasible, key=lambda pair: pair[0])
    return sum(value for value, _ in best), [child for _, child in best]
