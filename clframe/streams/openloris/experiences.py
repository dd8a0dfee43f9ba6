"""The experiences of each stream as sections of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clframe.errors import DataError
from clframe.utils.console import warn_user
from clframe.worlds.objects import catalog
from clframe.worlds.objects.frames.cache_plan import Plan, Section
from clframe.worlds.objects.frames.clips import MIXTURE

SEQUENCE = "sequence"


@dataclass(frozen=True, eq=False)
class ExperienceSpec:
    """The sections of one experience and its task."""

    name: str
    sections: tuple[Section, ...]
    info: dict[str, Any]


def experience_specs(kind: str, plan: Plan, seed: int, name: str) -> list[ExperienceSpec]:
    """Return the experiences of a kind of stream, in training order.

    Args:
        kind: A factor, ``sequence`` or ``mixture``.
        plan: The available sections.
        seed: The seed of the mixture.
        name: The stream's name, for messages.

    Raises:
        DataError: There are no sections of this kind.
    """
    if kind in catalog.FACTORS:
        specs = [
            _spec(
                f"{catalog.SHORT[kind][catalog.level_of(n) - 1]}-{(n - 1) % 3 + 1}",
                [plan.sections[kind, n]],
            )
            for n in plan.numbers(kind)
        ]
        full = len(catalog.SEGMENTS)
    elif kind == SEQUENCE:
        specs = []
        for factor in catalog.FACTORS:
            for level in (1, 2, 3):
                keys = [(factor, n) for n in catalog.segments_of(level)]
                sections = [plan.sections[key] for key in keys if key in plan.sections]
                if sections:
                    specs.append(_spec(f"{factor}-{level}", sections))
        full = 3 * len(catalog.FACTORS)
    else:
        numbers = plan.numbers(MIXTURE)
        if numbers:
            return [_spec(f"batch-{n}", [plan.sections[MIXTURE, n]]) for n in numbers]
        dealt = deal(list(plan.sections.values()), seed)
        specs = [_spec(f"batch-{i}", batch) for i, batch in enumerate(dealt, start=1)]
        full = 12
    if not specs:
        groups = ", ".join(dict.fromkeys(group for group, _ in plan.sections))
        raise DataError(f"stream '{name}': {plan.words} has none of its sections, only {groups}")
    if len(specs) < full:
        warn_user(f"stream '{name}' has {len(specs)} of {full} tasks; the others are missing")
    return specs


def _spec(name: str, sections: Sequence[Section]) -> ExperienceSpec:
    info: dict[str, Any] = {"segments": [section.name for section in sections]}
    factors = {section.group for section in sections}
    if len(factors) == 1 and MIXTURE not in factors:
        (factor,) = factors
        level = catalog.level_of(sections[0].number)
        info |= {"factor": factor, "level": level, "content": catalog.LEVELS[factor][level - 1]}
    return ExperienceSpec(name, tuple(sections), info)


def deal(sections: Sequence[Section], seed: int) -> list[list[Section]]:
    """Distribute all segments over batches of three, each with two or three factor levels.

    The challenge's batches mixed two or three of the twelve factor levels each. They are not
    published with the frames, so they are random here.
    """
    generator = np.random.default_rng([seed, len(sections)])
    for _ in range(1000):
        order = [sections[i] for i in generator.permutation(len(sections))]
        batches = [order[i : i + 3] for i in range(0, len(order), 3)]
        levels = [{(s.group, catalog.level_of(s.number)) for s in batch} for batch in batches]
        if all(len(level) > 1 for level in levels):
            break
    return batches
