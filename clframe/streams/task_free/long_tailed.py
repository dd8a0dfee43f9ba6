"""Long-tailed class-incremental learning: exponentially fewer samples from class to class."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch

from clframe.core.registry import Registry
from clframe.core.stream import Scenario, Stream
from clframe.streams.lifetime.stream import base_stream
from clframe.streams.task_free.pool import Pool, generator, shuffled
from clframe.utils.setting_checks import at_least


def long_tailed(
    registry: Registry,
    data_dir: Path,
    download: bool = False,
    seed: int = 0,
    scenario: Scenario | None = None,
    base: str | dict[str, Any] = "split_mnist",
    imbalance: float = 100.0,
    order: Literal["ordered", "shuffled"] = "ordered",
) -> Stream:
    """The class of rank r keeps n * imbalance^(-r / (C - 1)) samples, rounded down, at least one.

    Liu et al., "Long-Tailed Class Incremental Learning" (2022), after Cao et al., "Learning
    Imbalanced Datasets with Label-Distribution-Aware Margin Loss" (2019): the first class has
    ``imbalance`` times as many samples as the last. C is the number of classes, and n is the size
    of the smallest class, so that the profile is exact even if classes differ in size. Ordered,
    experiences get fewer and fewer samples; shuffled, ranks are random. The evaluation does not
    change.

    Args:
        registry: The registry with the base stream.
        data_dir: The data folder.
        download: Whether to download missing data.
        seed: The seed of the base stream, of the samples to keep and of shuffled ranks.
        scenario: task, domain or class; null uses the base stream's scenario.
        base: The base stream: a name, or a mapping with ``name`` and settings.
        imbalance: Ratio of the largest class's samples to the smallest's.
        order: Whether ranks follow the learning order (``ordered``) or are ``shuffled``.
    """
    at_least(imbalance, 1, "stream.imbalance")
    pool = Pool.of(base_stream(registry, base, scenario, seed, data_dir, download))
    draw = generator(seed)
    labels, owner = pool.labels, pool.owner
    classes = [labels[owner == k].unique().tolist() for k in range(len(pool))]
    units = list(dict.fromkeys(unit for group in classes for unit in group))
    ranks = torch.arange(len(units))
    if order == "shuffled":
        ranks = shuffled(ranks, draw)
    rank = dict(zip(units, ranks.tolist(), strict=True))
    samples_of = [
        [((owner == k) & (labels == unit)).nonzero().squeeze(1) for unit in group]
        for k, group in enumerate(classes)
    ]
    most = min(len(samples) for group in samples_of for samples in group)
    parts = []
    for group, own in zip(classes, samples_of, strict=True):
        kept = [
            shuffled(samples, draw)[: profile(rank[unit], len(units), most, imbalance)]
            for unit, samples in zip(group, own, strict=True)
        ]
        parts.append(torch.cat(kept).sort().values)
    return pool.stream("long_tailed", parts, seed, pool.base.boundaries)


def profile(rank: int, n_classes: int, most: int, imbalance: float) -> int:
    """Return the number of samples of the class of this rank.

    >>> [profile(r, 3, 500, 100) for r in range(3)]
    [500, 50, 5]
    """
    share = imbalance ** (-rank / max(1, n_classes - 1))
    return max(1, int(most * share + 1e-9))
