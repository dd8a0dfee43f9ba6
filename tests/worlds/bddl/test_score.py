"""Q equals a plain listing of options on random small formulas; the search parts on their own."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import prod

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clframe.worlds.bddl import BDDLError, Goal, Limits, parse
from clframe.worlds.bddl.assignment import best_pairs
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

TYPES = {"a": ("a1", "a2", "a3"), "b": ("b1", "b2"), "none": ()}
TERMS = ("a1", "b1", "x", "y")
Option = list[tuple[Literal, bool]]


def listing(formula: Formula, bound: dict[str, str]) -> list[Option]:
    """All options, straight from their definition."""

    def each(binder: Binder) -> list[dict[str, str]]:
        return [{**bound, binder.variable: name} for name in TYPES[binder.type]]

    def joined(parts: list[list[Option]]) -> list[Option]:
        assume(prod(len(part) or 1 for part in parts) < 5000)
        return [list(itertools.chain(*choice)) for choice in itertools.product(*parts)]

    match formula:
        case Atom(predicate, terms):
            return [[((predicate, *(bound.get(term, term) for term in terms)), True)]]
        case And(parts):
            return joined([listing(part, bound) for part in parts])
        case Or(parts):
            return [option for part in parts for option in listing(part, bound)]
        case Not(part):
            flipped = [[[(a, not s)] for a, s in option] for option in listing(part, bound)]
            return joined(flipped)
        case Imply(condition, conclusion):
            return listing(Not(condition), bound) + listing(conclusion, bound)
        case ForAll(binder, body):
            return joined([listing(body, inner) for inner in each(binder)])
        case Exists(binder, body):
            return [option for inner in each(binder) for option in listing(body, inner)]
        case ForN(count, binder, body):
            children = [listing(body, inner) for inner in each(binder)]
            subsets = itertools.combinations(children, count)
            return [option for subset in subsets for option in joined(list(subset))]
        case ForPairs(count, first, second, body):
            rows, columns = TYPES[first.type], TYPES[second.type]
            wanted = min(len(rows), len(columns)) if count is None else count
            cells = list(itertools.product(rows, columns))
            result: list[Option] = []
            for chosen in itertools.combinations(cells, wanted):
                if all(len({cell[side] for cell in chosen}) == wanted for side in (0, 1)):
                    worlds = [{**bound, first.variable: r, second.variable: c} for r, c in chosen]
                    result += joined([listing(body, world) for world in worlds])
            return result


def holds(formula: Formula, bound: dict[str, str], world: frozenset[Literal]) -> bool:
    """Truth straight from its definition."""
    match formula:
        case Atom(predicate, terms):
            return (predicate, *(bound.get(term, term) for term in terms)) in world
        case And(parts):
            return all(holds(part, bound, world) for part in parts)
        case Or(parts):
            return any(holds(part, bound, world) for part in parts)
        case Not(part):
            return not holds(part, bound, world)
        case Imply(condition, conclusion):
            return not holds(condition, bound, world) or holds(conclusion, bound, world)
        case ForAll(binder, body) | Exists(binder, body) | ForN(_, binder, body):
            true = [holds(body, {**bound, binder.variable: n}, world) for n in TYPES[binder.type]]
            if isinstance(formula, ForN):
                return sum(true) == formula.count
            return all(true) if isinstance(formula, ForAll) else any(true)
        case ForPairs(count, first, second, body):
            rows, columns = TYPES[first.type], TYPES[second.type]
            wanted = min(len(rows), len(columns)) if count is None else count
            cells = [
                (r, c) for r in rows for c in columns
                if holds(body, {**bound, first.variable: r, second.variable: c}, world)
            ]  # fmt: skip
            return len({r for r, _ in cells}) >= wanted and len({c for _, c in cells}) >= wanted


ATOMS = st.one_of(
    st.builds(Atom, st.just("p"), st.tuples(st.sampled_from(TERMS))),
    st.builds(Atom, st.just("q"), st.tuples(st.sampled_from(TERMS), st.sampled_from(TERMS))),
)
X_A, X_B, Y_A, Y_B = Binder("x", "a"), Binder("x", "b"), Binder("y", "a"), Binder("y", "b")
BINDERS = st.sampled_from([X_A, X_B, Y_A, Y_B, Binder("x", "none")])
PAIRS = st.sampled_from([(X_A, Y_B), (X_B, Y_A), (Binder("x", "none"), Y_B)])


def larger(inner: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
    parts = st.lists(inner, max_size=3).map(tuple)
    return st.one_of(
        st.builds(And, parts),
        st.builds(Or, parts),
        st.builds(Not, inner),
        st.builds(Imply, inner, inner),
        st.builds(ForAll, BINDERS, inner),
        st.builds(Exists, BINDERS, inner),
        st.builds(ForN, st.integers(0, 3), BINDERS, inner),
        st.builds(
            lambda count, pair, body: ForPairs(count, pair[0], pair[1], body),
            st.one_of(st.none(), st.integers(0, 3)), PAIRS, inner,
        ),
    )  # fmt: skip


FORMULAS = st.recursive(ATOMS, larger, max_leaves=5)
NAMES = ("a1", "a2", "a3", "b1", "b2", "x", "y")
GROUND: list[Literal] = [("p", n) for n in NAMES]
GROUND += [("q", m, n) for m in NAMES for n in NAMES]
WORLDS = st.frozensets(st.sampled_from(GROUND))


def best(options: list[Option], earned: set[tuple[Literal, bool]]) -> Fraction | None:
    shares = [
        Fraction(sum(literal in earned for literal in option), len(option))
        if option
        else Fraction(1)
        for option in options
        if not any((atom, not sign) in option for atom, sign in option)
    ]
    return max(shares, default=None)


@settings(max_examples=1000, deadline=None)
@given(FORMULAS, WORLDS, WORLDS)
def test_score_equals_listing(
    formula: Formula, world: frozenset[Literal], start: frozenset[Literal]
) -> None:
    goal = Goal(formula, TYPES, start, Limits(max_option_literals=2000))
    assert goal.satisfied(world) == holds(formula, {}, world)
    try:
        number = goal.count_options()
    except BDDLError as error:
        assert "max_option_literals" in error.sentence  # noqa: PT017
        return
    if number > 3000:
        return
    options = listing(formula, {})
    assert number == len(options)
    consistent = [o for o in options if not any((atom, not sign) in o for atom, sign in o)]
    assert sorted(map(sorted, goal.options())) == sorted(map(sorted, consistent))
    now = {(atom, atom in world) for atom in GROUND}
    before = {(atom, atom in start) for atom in GROUND}
    expected = best(options, now)
    if expected is None:
        with pytest.raises(BDDLError, match="contradicts itself"):
            goal.score(world)
    else:
        assert goal.exact_score(world) == expected
        progress = Fraction(1) if holds(formula, {}, world) else best(options, now - before)
        assert goal.exact_progress(world) == progress


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=width, max_size=width),
            min_size=1,
            max_size=4,
        )
    ),
    st.integers(0, 4),
)
def test_best_pairs_equals_listing(values: list[list[int | None]], pairs: int) -> None:
    cells = [
        (r, c) for r, row in enumerate(values) for c, cell in enumerate(row) if cell is not None
    ]
    sums = [
        sum(values[r][c] or 0 for r, c in chosen)
        for chosen in itertools.combinations(cells, pairs)
        if len({r for r, _ in chosen}) == len({c for _, c in chosen}) == pairs
    ]
    best = best_pairs(values, pairs)
    if not sums:
        assert best is None
    else:
        assert best is not None
        assert best[0] == max(sums)
        assert len(best[1]) == pairs
        assert sum(values[r][c] or 0 for r, c in best[1]) == max(sums)


def _text(goal: str, objects: str) -> str:
    return f"(define (problem p) (:domain igibson) (:objects {objects}) (:init) (:goal {goal}))"


def test_astronomic_numbers_of_options() -> None:
    """30 baskets and 30 candles: 30! matchings, scored exactly."""
    cups = " ".join(f"cup_{k}" for k in range(30))
    boxes = " ".join(f"box_{k}" for k in range(30))
    text = _text("(forpairs (?c - cup) (?b - box) (inside ?c ?b))", f"{cups} - cup {boxes} - box")
    goal = parse(text).goal
    assert goal.count_options() == 10**30  # 2.7e32, cut
    world = [("inside", f"cup_{k}", f"box_{(k + 7) % 30}") for k in range(24)]
    assert goal.exact_score(world) == Fraction(24, 30)


def test_all_options_contradictory() -> None:
    text = _text("(and (open ?a_1) (not (open ?a_1)))", "a_1 - a")
    goal = parse(text).goal
    assert not goal.satisfied([])
    with pytest.raises(BDDLError, match="contradicts itself") as caught:
        goal.score([])
    assert caught.value.line == 1
    assert caught.value.column == text.index("(and") + 1


def test_parts_without_options_are_not_searched() -> None:
    """Listing 12! matchings, each of them joined with nothing, would never end."""
    cups = " ".join(f"cup_{k}" for k in range(12))
    pairs = "(forpairs (?c - cup) (?b - box) (inside ?c ?b))"
    objects = f"{cups} - cup {cups.replace('cup', 'box')} - box"
    goal = parse(_text(f"(not (and {pairs} (or)))", objects)).goal
    assert goal.satisfied([])
    assert goal.score([]) == 1.0
    forbidden = "(forpairs (?c - cup) (?b - box) (and (not (and)) (inside ?c ?b)))"
    with pytest.raises(BDDLError, match="contradicts"):
        parse(_text(forbidden, objects)).goal.score([])


def test_budgets_are_stated_not_silent() -> None:
    names = " ".join(f"a_{k}" for k in range(12))
    text = _text("(not (forn (6) (?x - a) (open ?x)))", f"{names} - a")
    with pytest.raises(BDDLError, match="max_option_literals"):
        parse(text, limits=Limits(max_option_literals=1000)).goal.score([])
    clash = "(and (forn (6) (?x - a) (open ?x)) (forn (7) (?x - a) (not (open ?x))))"
    with pytest.raises(BDDLError, match="max_search"):
        parse(_text(clash, f"{names} - a"), limits=Limits(max_search=1000)).goal.score([])


@pytest.mark.parametrize("literal", ["open", (1, 2), ("open", None)])
def test_literals_must_be_tuples_of_words(literal: object) -> None:
    goal = parse(_text("(open ?a_1)", "a_1 - a")).goal
    with pytest.raises(BDDLError, match="is a tuple"):
        goal.score([literal])  # type: ignore[list-item]
