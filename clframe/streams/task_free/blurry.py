"""i-Blurry and Si-Blurry: some classes occur once, others recur partly in every experience."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from clframe.core.registry import Registry
from clframe.core.stream import Scenario, Stream
from clframe.errors import SettingError
from clframe.streams.lifetime.stream import base_stream
from clframe.streams.task_free.pool import Pool, check_share, generator, shuffled

_TRIES = 1000


def i_blurry(
    registry: Registry,
    data_dir: Path,
    download: bool = False,
    seed: int = 0,
    scenario: Scenario | None = None,
    base: str | dict[str, Any] = "split_mnist",
    disjoint: float = 0.5,
    blur: float = 0.1,
    spread: Literal["others", "all"] = "others",
) -> Stream:
    """Some classes occur in one experience only, the others partly in every experience.

    i-Blurry-N-M of Koh et al., "Online Continual Learning on Class Incremental Blurry Task
    Configuration with Anytime Inference" (2022). N of all classes are disjoint. Of each other
    class, the share M of its samples leaves its own experience and is spread evenly over the
    ``others``, as in the paper (after Bang et al., "Rainbow Memory", 2021). Related code
    (Si-Blurry's) collects these samples and distributes them over ``all`` experiences, including
    each class's own. The base stream determines each experience's classes and the evaluation.

    Args:
        registry: The registry with the base stream.
        data_dir: The data folder.
        download: Whether to download missing data.
        seed: The seed of the base stream, of the disjoint classes and of the samples that move.
        scenario: task or class; null uses the base stream's scenario.
        base: The base stream: a name, or a mapping with ``name`` and settings.
        disjoint: Share of all classes that occur in one experience only (N; 1 blurs nothing).
        blur: Share of the other classes' samples that move to other experiences (M).
        spread: Spread these evenly over the ``others``, or at random over ``all`` experiences.
    """
    check_share(disjoint, "stream.disjoint")
    check_share(blur, "stream.blur")
    pool = Pool.of(base_stream(registry, base, scenario, seed, data_dir, download))
    classes = pool.classes()
    _several(pool)
    draw = generator(seed)
    fixed = _disjoint(classes, disjoint, draw)
    parts: list[list[Tensor]] = [[] for _ in classes]
    moved: list[Tensor] = []
    for own, units in enumerate(classes):
        for unit in units:
            samples = shuffled(pool.of_class(unit), draw)
            n = 0 if unit in fixed else round(blur * len(samples))
            parts[own].append(samples[n:])
            if spread == "all":
                moved.append(samples[:n])
                continue
            others = [k for k in range(len(classes)) if k != own]
            # Starting at a different experience per class spreads the remainders evenly.
            others = others[unit % len(others) :] + others[: unit % len(others)]
            for k, piece in zip(others, samples[:n].tensor_split(len(others)), strict=True):
                parts[k].append(piece)
    if moved:
        for k, piece in enumerate(shuffled(torch.cat(moved), draw).tensor_split(len(classes))):
            parts[k].append(piece)
    info = [
        {
            "disjoint": [u for u in units if u in fixed],
            "blurry": [u for u in units if u not in fixed],
        }
        for units in classes
    ]
    order = [shuffled(torch.cat(pieces), draw) for pieces in parts]
    return pool.stream("i_blurry", order, seed, boundaries=False, info=info)


def si_blurry(
    registry: Registry,
    data_dir: Path,
    download: bool = False,
    seed: int = 0,
    scenario: Scenario | None = None,
    base: str | dict[str, Any] = "split_mnist",
    disjoint: float = 0.5,
    blur: float = 0.1,
) -> Stream:
    """Classes and samples are distributed at random, in random numbers per experience.

    Si-Blurry of Moon et al., "Online Class Incremental Learning on Stochastic Blurry Task Boundary
    via Mask and Visual Prompt Tuning" (2023). The classes are shuffled; the share ``disjoint`` and
    the others are each split at random positions into one group per experience. Then, as in the
    authors' code, the share ``blur`` of the other classes' samples is also split at random
    positions: each experience gives away that many of its samples (or all it has) and gets the same
    number back from all that were given away. A draw that leaves an experience without samples is
    repeated. The base stream determines the number of experiences and the evaluation.

    Args:
        registry: The registry with the base stream.
        data_dir: The data folder.
        download: Whether to download missing data.
        seed: The seed of the base stream and of all random choices.
        scenario: task or class; null uses the base stream's scenario.
        base: The base stream: a name, or a mapping with ``name`` and settings.
        disjoint: Share of all classes that occur in one experience only.
        blur: Share of the other classes' samples that are exchanged between experiences.
    """
    check_share(disjoint, "stream.disjoint")
    check_share(blur, "stream.blur")
    pool = Pool.of(base_stream(registry, base, scenario, seed, data_dir, download))
    units = torch.tensor([unit for group in pool.classes() for unit in group])
    _several(pool)
    draw = generator(seed)
    for _ in range(_TRIES):
        parts, info = _draw_parts(pool, units, round(disjoint * len(units)), blur, draw)
        if all(len(part) for part in parts):
            names = [f"exp{number}" for number in range(len(parts))]
            return pool.stream("si_blurry", parts, seed, boundaries=False, names=names, info=info)
    raise SettingError(
        f"stream 'si_blurry': cannot distribute {len(units)} classes of stream '{pool.base.name}' "
        f"so that each of {len(pool)} experiences has some; use fewer experiences in the base "
        "stream"
    )


def _draw_parts(
    pool: Pool, units: Tensor, n_disjoint: int, blur: float, draw: torch.Generator
) -> tuple[list[Tensor], list[dict[str, Any]]]:
    order, n = shuffled(units, draw), len(pool)
    fixed = _cut(order[:n_disjoint], n, draw)
    others = _cut(order[n_disjoint:], n, draw)
    staying = [_samples(pool, group) for group in fixed]
    moving = [shuffled(_samples(pool, group), draw) for group in others]
    total = round(blur * sum(map(len, moving)))
    requested = [len(piece) for piece in _cut(torch.arange(total), n, draw)]
    counts = [min(k, len(samples)) for k, samples in zip(requested, moving, strict=True)]
    back = shuffled(torch.cat([m[:k] for m, k in zip(moving, counts, strict=True)]), draw)
    parts = [
        shuffled(torch.cat([stay, move[k:], piece]), draw)
        for stay, move, k, piece in zip(staying, moving, counts, back.split(counts), strict=True)
    ]
    info = [
        {"disjoint": sorted(a.tolist()), "blurry": sorted(b.tolist()), "exchanged": k}
        for a, b, k in zip(fixed, others, counts, strict=True)
    ]
    return parts, info


def _cut(values: Tensor, n: int, draw: torch.Generator) -> Sequence[Tensor]:
    """Split values at random positions into n groups, which may be empty."""
    if not len(values):
        return [values] * n
    positions = torch.randint(len(values), (n - 1,), generator=draw).sort().values
    return values.tensor_split(positions.tolist())


def _samples(pool: Pool, units: Tensor) -> Tensor:
    return torch.isin(pool.labels, units).nonzero().squeeze(1)


def _disjoint(classes: Sequence[Sequence[int]], share: float, draw: torch.Generator) -> set[int]:
    """Choose this share of all classes, as evenly over the experiences as possible."""
    orders = [shuffled(torch.tensor(units), draw).tolist() for units in classes]
    longest = max(map(len, orders))
    rounds = [units[k] for k in range(longest) for units in orders if k < len(units)]
    return set(rounds[: round(share * len(rounds))])


def _several(pool: Pool) -> None:
    if len(pool) < 2:
        raise SettingError(
            f"stream '{pool.base.name}' has only one experience to blur; use a base with several"
        )
