"""From forms to formulas, with every name, arity and type checked."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from clframe.worlds.bddl.domain import ROOM, Domain
from clframe.worlds.bddl.errors import shown
from clframe.worlds.bddl.limits import Limits
from clframe.worlds.bddl.report import Report
from clframe.worlds.bddl.source import Form, Group, Word
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
)

_SHAPES = {
    "not": "(not FORMULA)",
    "imply": "(imply FORMULA FORMULA)",
    "forall": "(forall (?x - TYPE) FORMULA)",
    "exists": "(exists (?x - TYPE) FORMULA)",
    "forn": "(forn (N) (?x - TYPE) FORMULA)",
    "forpairs": "(forpairs (?x - TYPE) (?y - TYPE) FORMULA)",
    "fornpairs": "(fornpairs (N) (?x - TYPE) (?y - TYPE) FORMULA)",
}
_OPERANDS = {
    "not": 1,
    "imply": 2,
    "forall": 2,
    "exists": 2,
    "forn": 3,
    "forpairs": 3,
    "fornpairs": 4,
}
_CONNECTIVES = frozenset({"and", "or", *_OPERANDS})
_COUNT = re.compile(r"[0-9]{1,6}")


class FormulaReader:
    """Reads formulas against a vocabulary and the names that a problem declares.

    Args:
        report: Where faults go.
        domain: The vocabulary; None checks only that a predicate keeps its arity.
        names: Every name a term may bear: objects, fixtures and regions.
        dangling: Regions of undeclared targets, which nothing may refer to.
        types: Type -> instances, for quantifiers.
        limits: Bounds on the goal's size.
    """

    def __init__(
        self,
        report: Report,
        domain: Domain | None,
        names: Collection[str],
        dangling: Collection[str],
        types: Mapping[str, tuple[str, ...]],
        limits: Limits,
    ) -> None:
        self.report = report
        self.source = report.source
        self.domain = domain
        self.names = names
        self.dangling = dangling
        self.types = types
        self.limits = limits
        self.arities: dict[str, int] = {}

    def init_literal(self, form: Form) -> InitLiteral:
        """Read one entry of ``:init``: an atom or a negated atom."""
        at = self.source.position(form.offset)
        positive, inner = True, form
        if _head(form) == "not":
            positive, inner = False, self._operands(form, "not")[0]
        if _head(inner) in _CONNECTIVES:
            sentence = f":init holds atoms and negated atoms only, not {shown(_head(inner))}."
            raise self.source.error(sentence, inner.offset)
        atom = self._atom(inner, frozenset())
        return InitLiteral((atom.predicate, *atom.terms), positive, at)

    def goal(self, form: Form) -> Formula:
        """Read a goal; refuse one that asks for nothing or is too large once written out."""
        if _joins_nothing(form):
            holds = "always holds" if _head(form) == "and" else "never holds"
            sentence = f"The goal joins no formulas, so it {holds}; expected (and FORMULA ...)."
            raise self.source.error(sentence, form.offset)
        formula, size = self._formula(form, frozenset())
        if size > self.limits.max_ground_atoms:
            raise self.source.error(
                f"The goal has {size} ground atoms once its quantifiers are written out; "
                f"the limit is {self.limits.max_ground_atoms}.",
                form.offset,
            )
        return formula

    def _formula(self, form: Form, bound: frozenset[str]) -> tuple[Formula, int]:
        """The formula and the number of its ground atoms."""
        head = _head(form)
        if head not in _CONNECTIVES:
            return self._atom(form, bound), 1
        at = self.source.position(form.offset)
        if head in ("and", "or"):
            assert isinstance(form, Group)  # it has a head
            read = [self._formula(item, bound) for item in form.items[1:]]
            parts = tuple(part for part, _ in read)
            total = max(1, sum(size for _, size in read))
            return (And(parts, at) if head == "and" else Or(parts, at)), total
        operands = self._operands(form, head)
        if head == "not":
            part, size = self._formula(operands[0], bound)
            return Not(part, at), size
        if head == "imply":
            condition, left = self._formula(operands[0], bound)
            conclusion, right = self._formula(operands[1], bound)
            return Imply(condition, conclusion, at), left + right
        count = self._count(operands[0], head) if head in ("forn", "fornpairs") else None
        binders = [self._binder(item, head) for item in operands[0 if count is None else 1 : -1]]
        if count is not None:
            self._check_count(count, head, binders, operands[0].offset)
        body, size = self._formula(operands[-1], bound | {b.variable for b in binders})
        for binder in binders:
            size *= max(1, len(self.types.get(binder.type, ())))
        if head == "forall":
            return ForAll(binders[0], body, at), size
        if head == "exists":
            return Exists(binders[0], body, at), size
        if head == "forn":
            assert count is not None  # read above for this head
            return ForN(count, binders[0], body, at), size
        return ForPairs(count, binders[0], binders[1], body, at), size

    def _operands(self, form: Form, head: str) -> tuple[Form, ...]:
        assert isinstance(form, Group)  # it has a head
        operands = form.items[1:]
        if len(operands) != _OPERANDS[head]:
            sentence = f"{shown(head)} has {len(operands)} operands; expected {_SHAPES[head]}."
            raise self.source.error(sentence, form.offset)
        return operands

    def _count(self, form: Form, head: str) -> int:
        inner = form.items[0] if isinstance(form, Group) and len(form.items) == 1 else None
        if not isinstance(inner, Word) or not _COUNT.fullmatch(inner.text):
            sentence = f"Expected a count such as (2), from 0 to 999999, as in {_SHAPES[head]}."
            raise self.source.error(sentence, form.offset)
        return int(inner.text)

    def _check_count(self, count: int, head: str, binders: list[Binder], offset: int) -> None:
        """Refuse to ask for more instances, or disjoint pairs of them, than are declared."""
        instances = [self.types.get(binder.type, ()) for binder in binders]
        if not all(instances) or any(name.endswith("_*") for row in instances for name in row):
            return  # undeclared, which is an error of its own, or more than a scene can tell
        most = min(len(row) for row in instances)
        if head == "fornpairs" and binders[0].type == binders[1].type and most == 1:
            most = 0  # nothing is paired with itself
        if count > most:
            what = "pairs" if head == "fornpairs" else "instances"
            types = " and ".join(
                f"{shown(binder.type)} ({len(row)} declared)"
                for binder, row in zip(binders, instances, strict=True)
            )
            sentence = f"{shown(head)} asks for {count} {what}, but {types} can give only {most}."
            self.report.error(sentence, offset)

    def _binder(self, form: Form, head: str) -> Binder:
        items = form.items if isinstance(form, Group) else ()
        words = [item.text for item in items if isinstance(item, Word)]
        if len(items) != 3 or len(words) != 3 or words[1] != "-" or not words[0].strip("?"):
            sentence = f"Expected a variable such as (?x - TYPE), as in {_SHAPES[head]}."
            raise self.source.error(sentence, form.offset)
        if words[2] not in self.types:
            hint = self.report.hint(words[2], self.types)
            sentence = f"No object of type {shown(words[2])} is declared; {hint}"
            self.report.error(sentence, items[2].offset)
        return Binder(words[0].strip("?"), words[2])

    def _atom(self, form: Form, bound: frozenset[str]) -> Atom:
        if isinstance(form, Word) or not form.items or not isinstance(form.items[0], Word):
            actual = f"the word {shown(form.text)}" if isinstance(form, Word) else "this"
            sentence = f"Expected a formula such as (ontop ?a ?b) instead of {actual}."
            raise self.source.error(sentence, form.offset)
        predicate = form.items[0].text
        words: list[Word] = []
        for item in form.items[1:]:
            if isinstance(item, Group):
                sentence = f"{shown(predicate)} is no connective, so its terms must be names."
                raise self.source.error(sentence, item.offset)
            words.append(item)
        sorts = self._sorts(predicate, len(words), form.offset)
        terms = []
        for index, word in enumerate(words):
            sort = sorts[index] if index < len(sorts) else None
            terms.append(self._term(word, predicate, sort, bound))
        return Atom(predicate, tuple(terms), self.source.position(form.offset))

    def _sorts(self, predicate: str, given: int, offset: int) -> tuple[str, ...]:
        if self.domain is None:
            arity = self.arities.setdefault(predicate, given)
            if given not in (1, 2) or arity != given:
                wanted = arity if arity in (1, 2) else "1 or 2"
                sentence = f"{shown(predicate)} has {given} terms; expected {wanted}."
                self.report.error(sentence, offset)
            return ()
        if predicate not in self.domain.predicates:
            hint = self.report.hint(predicate, [*self.domain.predicates, *_CONNECTIVES])
            sentence = (
                f"Domain {shown(self.domain.name)} has no predicate {shown(predicate)}; {hint}"
            )
            self.report.error(sentence, offset)
            return ()
        sorts = self.domain.predicates[predicate]
        if len(sorts) != given:
            wanted = "1 term" if len(sorts) == 1 else f"{len(sorts)} terms"
            sentence = f"{shown(predicate)} takes {wanted}, not {given}."
            self.report.error(sentence, offset)
        return sorts

    def _term(self, word: Word, predicate: str, sort: str | None, bound: frozenset[str]) -> str:
        name = word.text.strip("?")
        if not name:
            raise self.source.error("A '?' must be followed by a name.", word.offset)
        if name in bound or sort == ROOM:
            return name
        if name in self.dangling:
            sentence = f"The region {shown(name)} belongs to a target that is not declared."
            self.report.error(sentence, word.offset)
        elif name not in self.names:
            if self.domain is None and predicate == "inroom":
                return name
            hint = self.report.hint(name, [*self.names, *bound])
            self.report.error(f"{shown(name)} is not declared; {hint}", word.offset)
        elif name.endswith("_*") and predicate != "inroom":
            sentence = f"The wildcard {shown(name)} may stand in :objects and inroom only."
            self.report.error(sentence, word.offset)
        return name


def _joins_nothing(form: Form) -> bool:
    """Whether this is ``(and)`` or ``(or)``, or consists only of these."""
    if _head(form) not in ("and", "or"):
        return False
    assert isinstance(form, Group)  # it has a head
    return all(_joins_nothing(item) for item in form.items[1:])


def _head(form: Form) -> str:
    """The first word of a group, or an empty string."""
    if isinstance(form, Group) and form.items and isinstance(form.items[0], Word):
        return form.items[0].text
    return ""
