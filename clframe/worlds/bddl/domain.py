"""Domains: which predicates there are and what they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from clframe.worlds.bddl.errors import shown
from clframe.worlds.bddl.limits import Limits
from clframe.worlds.bddl.source import Group, Source, Word, load, read_form
from clframe.worlds.bddl.typed_list import typed_names

ROOM = "room"
"""The sort of a term that names a kind of room; any other sort is an object or a region."""

_SHIPPED = {
    "igibson": "igibson",
    "behavior-100": "igibson",
    "omnigibson": "omnigibson",
    "behavior-1k": "omnigibson",
    "robosuite": "robosuite",
}
LIBERO_DOMAIN = "robosuite"


@dataclass(frozen=True)
class Domain:
    """A vocabulary: each predicate with the sorts of its terms.

    Example:
        >>> domain = Domain("kitchen", {"ontop": ("cup", "shelf")})
        >>> domain.name, sorted(domain.predicates)
        ('kitchen', ['ontop'])
    """

    name: str
    predicates: Mapping[str, tuple[str, ...]]


def shipped_domains() -> tuple[str, ...]:
    """The names that ``:domain`` may bear without a domain of your own.

    >>> shipped_domains()
    ('behavior-100', 'behavior-1k', 'igibson', 'omnigibson', 'robosuite')
    """
    return tuple(sorted(_SHIPPED))


@cache
def shipped_domain(name: str) -> Domain | None:
    """The shipped domain of that name, or None.

    >>> domain = shipped_domain("behavior-1k")
    >>> domain.predicates["inroom"] if domain else None
    ('object', 'room')
    """
    if name not in _SHIPPED:
        return None
    file = resources.files("clframe.worlds.bddl") / "data" / f"{_SHIPPED[name]}.bddl"
    return parse_domain(file.read_text(encoding="utf-8"))


def parse_domain(text_or_path: str | Path, *, limits: Limits | None = None) -> Domain:
    """Read ``(define (domain NAME) (:predicates (NAME ?a ?b - sort) ...))``.

    Raises:
        BDDLError: If the text is not such a domain.

    Example:
        >>> domain = parse_domain("(define (domain kitchen) (:predicates (ontop ?a ?b)))")
        >>> sorted(domain.predicates)
        ['ontop']
    """
    limits = limits or Limits()
    source = load(text_or_path, limits)
    form = read_form(source, limits)
    name: str | None = None
    predicates: dict[str, tuple[str, ...]] = {}
    if not (form.items and isinstance(form.items[0], Word) and form.items[0].text == "define"):
        raise source.error("A domain starts with (define (domain NAME) ...).", form.offset)
    for item in form.items[1:]:
        head = item.items[0] if isinstance(item, Group) and item.items else None
        if not isinstance(item, Group) or not isinstance(head, Word):
            raise source.error("Expected a section such as (:predicates ...).", item.offset)
        if head.text == "domain":
            name = _domain_name(source, item)
        elif head.text == ":predicates":
            for declaration in item.items[1:]:
                predicate, sorts = _predicate(source, declaration)
                if predicate in predicates:
                    sentence = f"The predicate {shown(predicate)} is declared twice."
                    raise source.error(sentence, declaration.offset)
                predicates[predicate] = sorts
        elif head.text not in (":requirements", ":types"):
            raise source.error(f"A domain has no section {shown(head.text)}.", item.offset)
    if name is None or not predicates:
        raise source.error("A domain needs (domain NAME) and (:predicates ...).", form.offset)
    return Domain(name, predicates)


def _domain_name(source: Source, section: Group) -> str:
    if len(section.items) != 2 or not isinstance(section.items[1], Word):
        raise source.error("Expected (domain NAME).", section.offset)
    return section.items[1].text


def _predicate(source: Source, form: Word | Group) -> tuple[str, tuple[str, ...]]:
    if isinstance(form, Word) or not form.items or not isinstance(form.items[0], Word):
        raise source.error("Expected a predicate such as (ontop ?a ?b).", form.offset)
    return form.items[0].text, tuple(sort for _, sort in typed_names(source, form.items[1:]))
