"""A goal that can be decided and scored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property

from clframe.worlds.bddl.errors import BDDLError
from clframe.worlds.bddl.ground import Kind, Node, ground, truth
from clframe.worlds.bddl.limits import Limits
from clframe.worlds.bddl.option_count import option_counts
from clframe.worlds.bddl.option_fold import fold
from clframe.worlds.bddl.option_list import list_options
from clframe.worlds.bddl.option_tree import Options, Signed, consistent
from clframe.worlds.bddl.score import Counts, best_fraction, best_option
from clframe.worlds.bddl.syntax import And, Formula, Literal


class Goal:
    """What must hold at the end, over the objects of one problem.

    Args:
        formula: The goal as written.
        types: Type -> instances, over which quantifiers range.
        initial: The literals that hold at the start.
        limits: Bounds on the work of scoring.
        path: The file the goal came from, for errors.

    Two goals are equal if their formulas are.

    Example:
        >>> from clframe.worlds.bddl import parse
        >>> text = '''(define (problem tidy) (:domain robosuite)
        ...   (:objects cup_1 - cup shelf_1 - shelf)
        ...   (:init) (:goal (and (On cup_1 shelf_1))))'''
        >>> goal = parse(text).goal
        >>> goal.satisfied([]), goal.satisfied([("on", "cup_1", "shelf_1")])
        (False, True)
    """

    def __init__(
        self,
        formula: Formula,
        types: Mapping[str, tuple[str, ...]],
        initial: frozenset[Literal] = frozenset(),
        limits: Limits | None = None,
        path: str | None = None,
    ) -> None:
        self.formula = formula
        self.types = dict(types)
        self.initial = initial
        self.limits = limits or Limits()
        self.path = path

    def __eq__(self, other: object) -> bool:
        return self.formula == other.formula if isinstance(other, Goal) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.formula)

    def __repr__(self) -> str:
        return f"Goal({self.formula!r})"

    @cached_property
    def _nodes(self) -> tuple[Node, ...]:
        return ground(self.formula, self.types)

    @cached_property
    def _options(self) -> Options:
        try:
            return fold(self._nodes, self.limits)
        except BDDLError as error:
            raise self._placed(error) from None

    @property
    def atoms(self) -> frozenset[Literal]:
        """Every ground atom that the goal mentions."""
        return frozenset(node.atom for node in self._nodes if node.kind is Kind.ATOM)

    def satisfied(self, true_literals: Iterable[Sequence[str]]) -> bool:
        """Whether the goal holds, as the reference decides success.

        ``forn`` is exactly N; ``forpairs`` is enough rows and enough columns with a true cell. For
        both, ``score`` can be 1 without success, or below 1 with it.

        Args:
            true_literals: What holds; everything else does not.
        """
        return truth(self._nodes, _world(true_literals))[-1]

    def conjuncts(self, true_literals: Iterable[Sequence[str]]) -> tuple[bool, ...]:
        """Whether each top-level conjunct holds, in the order of the file."""
        values = truth(self._nodes, _world(true_literals))
        if isinstance(self.formula, And):
            return tuple(values[child] for child in self._nodes[-1].children)
        return (values[-1],)

    def score(self, true_literals: Iterable[Sequence[str]]) -> float:
        """The success score Q of BEHAVIOR: the best share of true literals over ground options.

        Raises:
            BDDLError: If every option contradicts itself, so that Q has no value, or if the goal
                exceeds the limits; never a lower bound in place of the value.
        """
        return float(self.exact_score(true_literals))

    def exact_score(self, true_literals: Iterable[Sequence[str]]) -> Fraction:
        """Q as a fraction; see `score`."""
        world = _world(true_literals)
        return self._best(lambda literal: (literal[0] in world) == literal[1])

    def progress(self, true_literals: Iterable[Sequence[str]]) -> float:
        """Q in OmniGibson's form: literals that held at the start earn nothing; 1 on success."""
        return float(self.exact_progress(true_literals))

    def exact_progress(self, true_literals: Iterable[Sequence[str]]) -> Fraction:
        """``progress`` as a fraction."""
        world = _world(true_literals)
        if truth(self._nodes, world)[-1]:
            return Fraction(1)

        def earned(literal: Signed) -> bool:
            atom, wanted = literal
            return (atom in world) == wanted and (atom in self.initial) != wanted

        return self._best(earned)

    def options(self) -> Iterator[tuple[Signed, ...]]:
        """List the options without contradiction, lazily; `count_options` says how many."""
        return (option for option in list_options(self._options) if consistent(option))

    def nearest_option(
        self, true_literals: Iterable[Sequence[str]], without: Iterable[Signed] = ()
    ) -> tuple[Signed, ...] | None:
        """An option with the largest share of true literals, found without listing options.

        Args:
            true_literals: What holds; everything else does not.
            without: Signed literals that the option must not ask for.

        Returns:
            The option, or None if every option contradicts itself or asks for one of ``without``.
        """
        world = _world(true_literals)
        banned = frozenset(without)
        try:
            best = best_option(
                self._options,
                lambda literal: (literal[0] in world) == literal[1],
                self.limits,
                banned,
            )
        except BDDLError as error:
            raise self._placed(error) from None
        return None if best is None else tuple(best[1])

    def count_options(self) -> int:
        """The number of options, contradictory ones included, without listing them.

        Exact up to 10^30; a larger number is given as 10^30.
        """
        try:
            return option_counts(self._options)[-1]
        except BDDLError as error:
            raise self._placed(error) from None

    def _best(self, earns: Counts) -> Fraction:
        try:
            share = best_fraction(self._options, earns, self.limits)
        except BDDLError as error:
            raise self._placed(error) from None
        if share is None:
            sentence = "Every way to reach the goal contradicts itself, so it has no score."
            raise self._placed(BDDLError(sentence))
        return share

    def _placed(self, error: BDDLError) -> BDDLError:
        """The error at the place of the goal."""
        at = self.formula.at
        return BDDLError(error.sentence, at.line, at.column, self.path)


def _world(true_literals: Iterable[Sequence[str]]) -> frozenset[Literal]:
    """The literals as tuples; a string is refused, since it would be read letter by letter."""
    world = set()
    for literal in true_literals:
        if isinstance(literal, str) or not all(isinstance(word, str) for word in literal):
            raise BDDLError(f"A literal is a tuple such as ('open', 'door_1'), not {literal!r}.")
        world.add(tuple(literal))
    return frozenset(world)
