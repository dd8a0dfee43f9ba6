"""Training labels of which some are wrong; what is measured stays right."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from clframe.core.registry import Registry
from clframe.core.stream import Scenario, Stream
from clframe.data.reindexed import relabelled
from clframe.errors import SettingError
from clframe.streams.lifetime.stream import base_stream
from clframe.streams.task_free.pool import Pool, check_share, generator, shuffled


def noisy_labels(
    registry: Registry,
    data_dir: Path,
    download: bool = False,
    seed: int = 0,
    scenario: Scenario | None = None,
    base: str | dict[str, Any] = "split_mnist",
    rate: float = 0.2,
    kind: Literal["symmetric", "asymmetric"] = "symmetric",
) -> Stream:
    """A share of each class's training labels is another class of the same experience and task.

    ``symmetric``: any other class, each equally often: the transition matrix has 1 - rate on its
    diagonal and rate / (C - 1) beside it. ``asymmetric``: always the next class, the last one
    becoming the first: rate on one other place of each row (Patrini et al., "Making Deep Neural
    Networks Robust to Label Noise", 2017; in a stream with noise, Kim et al., "Continual Learning
    on Noisy Data Streams via Self-Purified Replay", 2021). C are the classes of a task that an
    experience has: a label of classes to come would give them away. Of n samples of a class exactly
    round(rate * n) are changed; which ones is a function of the seed.

    Args:
        registry: Where the base stream is found.
        data_dir: The data folder.
        download: Whether missing data may be fetched.
        seed: Of the base stream and of the labels that change.
        scenario: task, domain or class; null takes the base stream's own.
        base: The base stream: a name, or a mapping with ``name`` and settings.
        rate: Share of wrong labels.
        kind: ``symmetric`` or ``asymmetric``.
    """
    check_share(rate, "stream.rate", below_one=True)
    pool = Pool.of(base_stream(registry, base, scenario, seed, data_dir, download))
    draw = generator(seed)
    labels = pool.labels.clone()
    group = pool.owner * len(pool.base.tasks) + pool.data.tasks
    for number in group.unique().tolist():
        here = group == number
        units = pool.labels[here].unique()
        if len(units) < 2:
            name = pool.base.experiences[number // len(pool.base.tasks)].name
            raise SettingError(
                f"experience '{name}' of stream '{pool.base.name}' has one class, whose labels "
                "cannot be another's; let the base stream have fewer experiences"
            )
        for place, unit in enumerate(units.tolist()):
            samples = shuffled((here & (pool.labels == unit)).nonzero().squeeze(1), draw)
            wrong = samples[: round(rate * len(samples))]
            labels[wrong] = _others(units, place, len(wrong), kind)
    parts = [(pool.owner == k).nonzero().squeeze(1) for k in range(len(pool))]
    info = [{"wrong_labels": int((labels != pool.labels)[part].sum())} for part in parts]
    data = relabelled(pool.data, labels)
    return pool.stream("noisy_labels", parts, seed, pool.base.boundaries, info=info, data=data)


def _others(units: Tensor, place: int, n: int, kind: str) -> Tensor:
    """What so many samples of a class, in an order by lot already, are called instead."""
    if kind == "asymmetric":
        return units[(place + 1) % len(units)].repeat(n)
    others = torch.cat([units[place + 1 :], units[:place]])
    return others[torch.arange(n) % len(others)]
