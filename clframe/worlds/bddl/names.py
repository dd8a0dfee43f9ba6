"""An ordered, immutable table of declared names and their types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


class NameTable(Mapping[str, str]):
    """Instance -> type, in the order of declaration.

    >>> table = NameTable([("cup_1", "cup"), ("plate_1", "plate"), ("cup_2", "cup")])
    >>> table["cup_2"], table.of_type("cup")
    ('cup', ('cup_1', 'cup_2'))
    """

    __slots__ = ("_types",)

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._types = dict(pairs)

    def __getitem__(self, name: str) -> str:
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def __eq__(self, other: object) -> bool:
        # The order of instances is part of the text, so it is part of equality.
        if not isinstance(other, NameTable):
            return NotImplemented
        return list(self._types.items()) == list(other._types.items())

    def __hash__(self) -> int:
        return hash(tuple(self._types.items()))

    def __repr__(self) -> str:
        return f"NameTable({list(self._types.items())!r})"

    def of_type(self, kind: str) -> tuple[str, ...]:
        """The instances declared under exactly this type."""
        return tuple(name for name, type_ in self._types.items() if type_ == kind)

    def by_type(self) -> dict[str, tuple[str, ...]]:
        """Type -> instances, types in the order in which they first occur."""
        groups: dict[str, list[str]] = {}
        for name, kind in self._types.items():
            groups.setdefault(kind, []).append(name)
        return {kind: tuple(names) for kind, names in groups.items()}
