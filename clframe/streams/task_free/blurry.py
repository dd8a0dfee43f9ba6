"""i-Blurry and Si-Blurry: some classes come once, of the others a part comes at any time."""

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
    """Some classes occur in one experience only, of the others a part occurs in every experience.

    i-Blurry-N-M of Koh et al., "Online Continual Learning on Class Incremental Blurry Task
    Configuration with Anytime Inference" (2022): N of all classes are disjoint; of each of the
    others, the share M of its samples is taken out of its own experience and spread evenly over
    the ``others``, as the paper (after Bang et al., "Rainbow Memory", 2021) says. Programs of the
    same field (Si-Blurry's) gather these samples and share them out over ``all`` experiences, each
    class's own among them. The base stream says which classes are whose, and what is measured.

    Args:
        registry: Where the base stream is found.
        data_dir: The data folder.
        download: Whether missing data may be fetched.
        seed: Of the base stream, of which classes are disjoint and of which samples move.
        scenario: task or class; null takes the base stream's own.
        base: The base stream: a name, or a mapping with ``name`` and settings.
        disjoint: Share of all classes that occur in one experience only (N; 1 blurs nothing).
        blur: Share of the other classes' samples that come elsewhere (M).
        spread: Where those come: evenly in the ``others``, or by lot in ``all``.
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
            # Begun at another one for each class, so that the odd ones do not all come early.
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
    """Classes and samples are shared out by lot, so that experiences differ in how many they have.

    Si-Blurry of Moon et al., "Online Class Incremental Learning on Stochastic Blurry Task Boundary
    via Mask and Visual Prompt Tuning" (2023): the classes in an order by lot, the share
    ``disjoint`` of them and the others each cut at places by lot into as many groups as there are
    experiences. Then, as the authors' program does it, the share ``blur`` of the other classes'
    samples is cut at places by lot, too: each experience gives as many of its samples (or all it
    has) and gets as many back of what all have given. Lots that leave an experience without
    samples are drawn again. The base stream says how many experiences there are and what is
    measured.

    Args:
        registry: Where the base stream is found.
        data_dir: The data folder.
        download: Whether missing data may be fetched.
        seed: Of the base stream and of all lots.
        scenario: task or class; null takes the base stream's own.
        base: The base stream: a name, or a mapping with ``name`` and settings.
        disjoint: Share of all classes that occur in one experience only.
        blur: Share of the other classes' samples that change places.
    """
    check_share(disjoint, "stream.disjoint")
    check_share(blur, "stream.blur")
    pool = Pool.of(base_stream(registry, base, scenario, seed, data_dir, download))
    units = torch.tensor([unit for group in pool.classes() for unit in group])
    _several(pool)
    draw = generator(seed)
    for _ in range(_TRIES):
        parts, info = _by_lot(pool, units, round(disjoint * len(units)), blur, draw)
        if all(len(part) for part in parts):
            names = [f"exp{number}" for number in range(len(parts))]
            return pool.stream("si_blurry", parts, seed, boundaries=False, names=names, info=info)
    raise SettingError(
        f"stream 'si_blurry': {len(units)} classes of stream '{pool.base.name}' could not be drawn "
        f"so that each of {len(pool)} experiences has some; let the base stream have fewer"
    )


def _by_lot(
    pool: Pool, units: Tensor, n_disjoint: int, blur: float, draw: torch.Generator
) -> tuple[list[Tensor], list[dict[str, Any]]]:
    order, n = shuffled(units, draw), len(pool)
    fixed = _cut(order[:n_disjoint], n, draw)
    others = _cut(order[n_disjoint:], n, draw)
    staying = [_samples(pool, group) for group in fixed]
    moving = [shuffled(_samples(pool, group), draw) for group in others]
    total = round(blur * sum(map(len, moving)))
    asked = [len(piece) for piece in _cut(torch.arange(total), n, draw)]
    given = [min(k, len(samples)) for k, samples in zip(asked, moving, strict=True)]
    back = shuffled(torch.cat([m[:k] for m, k in zip(moving, given, strict=True)]), draw)
    parts = [
        shuffled(torch.cat([stay, move[k:], piece]), draw)
        for stay, move, k, piece in zip(staying, moving, given, back.split(given), strict=True)
    ]
    info = [
        {"disjoint": sorted(a.tolist()), "blurry": sorted(b.tolist()), "exchanged": k}
        for a, b, k in zip(fixed, others, given, strict=True)
    ]
    return parts, info


def _cut(values: Tensor, n: int, draw: torch.Generator) -> Sequence[Tensor]:
    """Values cut into n groups at places drawn by lot; groups may be empty."""
    if not len(values):
        return [values] * n
    places = torch.randint(len(values), (n - 1,), generator=draw).sort().values
    return values.tensor_split(places.tolist())


def _samples(pool: Pool, units: Tensor) -> Tensor:
    return torch.isin(pool.labels, units).nonzero().squeeze(1)


def _disjoint(classes: Sequence[Sequence[int]], share: float, draw: torch.Generator) -> set[int]:
    """So many of all classes, as evenly over the experiences as can be."""
    orders = [shuffled(torch.tensor(units), draw).tolist() for units in classes]
    longest = max(map(len, orders))
    rounds = [units[k] for k in range(longest) for units in orders if k < len(units)]
    return set(rounds[: round(share * len(rounds))])


def _several(pool: Pool) -> None:
    if len(pool) < 2:
        raise SettingError(
            f"stream '{pool.base.name}' has one experience, and nothing to blur; let it have more"
        )
