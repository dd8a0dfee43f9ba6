"""Typed lists of names, ``a b - type c``, as objects, fixtures and domains write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clframe.worlds.bddl.source import Form, Group, Source, Word

UNTYPED = "object"
"""The type of names that no ``- type`` follows."""


def typed_names(source: Source, items: Sequence[Form]) -> Iterator[tuple[Word, str]]:
    """Yield each name with its type, in the order written."""
    waiting: list[Word] = []
    index = 0
    while index < len(items):
        item = items[index]
        if isinstance(item, Group):
            raise source.error("Expected a name here, not a parenthesis.", item.offset)
        if item.text != "-":
            waiting.append(item)
            index += 1
            continue
        kind = items[index + 1] if index + 1 < len(items) else None
        if not isinstance(kind, Word) or kind.text == "-":
            raise source.error("A '-' must be followed by the name of a type.", item.offset)
        if not waiting:
            raise source.error("A '-' must follow at least one name.", item.offset)
        for name in waiting:
            yield name, kind.text
        waiting = []
        index += 2
    for name in waiting:
        yield name, UNTYPED
