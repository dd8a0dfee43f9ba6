"""What stays the same in a household: its things, what they can do and become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clframe.worlds.bddl import Literal, Problem
from clframe.worlds.behavior.categories import Can, categories, lemma

AGENT = "agent.n.01"
DUST, STAIN, WATER = "dust.n.01", "stain.n.01", "water.n.06"
_LARGE, _MEDIUM, _SMALL = (0.5, 0.3, 0.8), (0.15, 0.15, 0.2), (0.05, 0.05, 0.1)
_CARRIED_FURNITURE = ("table", "chair", "desk", "stool", "bed", "rack", "cart", "tree", "shelf")


@dataclass(frozen=True)
class Area:
    """The ground of one floor: its middle, and half of its extent along either axis."""

    slot: int
    room: str
    center: tuple[float, float]
    half: float


@dataclass(frozen=True)
class Things:
    """The names of a household before they are placed.

    Args:
        types: Name -> category, in the order of slots.
        fixed: Name -> room of what is part of a room.
        sources: (source, substance) pairs: what flows from what without end.
        brought: Names that the scene adds to those of the activity.
    """

    types: Mapping[str, str]
    fixed: Mapping[str, str]
    sources: Sequence[tuple[str, str]]
    brought: tuple[str, ...] = ()


@dataclass
class Household:
    """The things of one activity, as slots with abilities.

    Substances are bits: the declared ones, and for BEHAVIOR-100, whose files speak of dusty,
    stained and soaked, dust, stain and water.

    Args:
        problem: The activity.
        things: Its names, and those that the scene adds.
    """

    problem: Problem
    things: Things
    names: list[str] = field(init=False)
    areas: dict[int, Area] = field(init=False, default_factory=dict)
    area_of: dict[int, int] = field(init=False, default_factory=dict)
    """Fixture -> the floor it stands on."""
    candidates: dict[tuple[object, ...], list[Any]] = field(init=False, default_factory=dict)
    """What hands hold -> verbs of each slot that may be possible (see `verbs.possible`)."""

    def __post_init__(self) -> None:
        table = categories()
        self.names = list(self.things.types)
        self.types = list(self.things.types.values())
        self.index = {name: slot for slot, name in enumerate(self.names)}
        self.old_words = self.problem.domain in ("igibson", "behavior-100")
        # BEHAVIOR-100 has no substances: its shampoo is a bottle.
        kept = ~(Can.SUBSTANCE if self.old_words else 0)
        self.can = [table[category] & kept for category in self.types]
        self.agent = next(slot for slot, kind in enumerate(self.types) if kind == AGENT)
        self.fixed = [
            name in self.things.fixed and not can & Can.MOVABLE
            for name, can in zip(self.names, self.can, strict=True)
        ]
        self.floor = [bool(can & Can.FLOOR) for can in self.can]
        self._name_substances()
        solid = [not can & Can.SUBSTANCE for can in self.can]
        self.carried = [
            solid[slot] and not self.fixed[slot] and slot != self.agent and not self.floor[slot]
            for slot in range(len(self.names))
        ]
        self.half = [self._half(slot) for slot in range(len(self.names))]
        self._find_changes()

    def _name_substances(self) -> None:
        declared = [
            name for name, can in zip(self.names, self.can, strict=True) if can & Can.SUBSTANCE
        ]
        self.substances = [*declared, *self._implied()]
        self.bit = {name: 1 << place for place, name in enumerate(self.substances)}
        kinds = dict(zip(self.names, self.types, strict=True))
        self.masks = dict.fromkeys((Can.LOOSE, Can.STUCK, Can.MARK, Can.LIQUID), 0)
        table = categories()
        for name, bit in self.bit.items():
            for ability in self.masks:
                if table.get(kinds.get(name, name), int(Can.LIQUID)) & ability:
                    self.masks[ability] |= bit
        self.water = 0
        for name, bit in self.bit.items():
            if kinds.get(name, name) == WATER:
                self.water |= bit
        self.yields = [0] * len(self.names)
        for source, substance in self.things.sources:
            self.yields[self.index[source]] |= self.bit[substance]
        for slot, can in enumerate(self.can):
            if can & Can.TAP:
                self.yields[slot] |= self.water

    def _implied(self) -> list[str]:
        """Categories of substances that are there although no name is declared for them."""
        found = [DUST, STAIN] if self.old_words else []
        if self.old_words or WATER not in self.types:
            found.append(WATER)
        known = {lemma(category) for category in self.types}
        for word in sorted(known):
            # What is declared cooked and diced was diced before.
            raw = word.removeprefix("cooked__")
            if word.startswith("cooked__diced__") and raw not in known:
                found.append(f"{raw}.n.01")
        return found

    def _half(self, slot: int) -> tuple[float, float, float]:
        if self.names[slot] in self.things.fixed:
            return _LARGE
        if lemma(self.types[slot]).endswith(_CARRIED_FURNITURE):
            return _LARGE
        return _MEDIUM if self.can[slot] & Can.CONTAINER else _SMALL

    def _find_changes(self) -> None:
        """What cutting and heating make of things, told by names: half__, diced__, cooked__..."""
        by_lemma: dict[str, list[int]] = {}
        for slot, category in enumerate(self.types):
            by_lemma.setdefault(lemma(category), []).append(slot)
        self.halves: dict[int, list[int]] = {}
        self.diced: dict[int, int] = {}
        self.heated: dict[int, int] = {}
        """Substance -> what heat makes of it, both as bits."""
        self.melted: dict[int, int] = {}
        """Slot -> the substance that heat makes of the thing."""
        bits = {lemma(name): bit for name, bit in self.bit.items() if name not in self.index}
        bits.update(
            (lemma(self.things.types[name]), bit)
            for name, bit in self.bit.items()
            if name in self.index
        )
        for word in (*by_lemma, *(word for word in bits if word not in by_lemma)):
            slots = by_lemma.get(word, [])
            kind, _, base = word.partition("__")
            sources = by_lemma.get(base, [])
            whole = by_lemma.get(base.removeprefix("half__"), [])
            product = bits.get(word, 0)
            if kind == "half":
                for place, slot in enumerate(sources):
                    self.halves[slot] = slots[2 * place : 2 * place + 2] or slots[-2:]
            elif kind == "diced" and product:
                for slot in (*whole, *by_lemma.get(f"half__{base}", [])):
                    self.diced[slot] = product
            elif kind in ("cooked", "melted") and product:
                if base in bits:
                    self.heated[bits[base]] = product
                for slot in sources:
                    if base not in bits:
                        self.melted[slot] = product

    def literal_slots(self, literal: Literal) -> list[int]:
        """The slots of a literal's terms."""
        return [self.index[term] for term in literal[1:]]
