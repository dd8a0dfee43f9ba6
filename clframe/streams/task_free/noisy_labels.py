"""Training labels of which some are wrong; test labels stay correct."""

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
    diagonal and rate / (C - 1) elsewhere. ``asymmetric``: always the next class, and the first
    after the last: rate in one other entry of each row (Patrini et al., "Making Deep Neural
    Networks Robust to Label Noise", 2017; in a stream with noise, Kim et al., "Continual Learning
    on Noisy Data Streams via Self-Purified Replay", 2021). C is the number of classes of a task in
    an experience: labels of later classes would reveal them. Of n samples of a class, exactly
    round(rate * n) change; the seed determines which ones.

    Args:
        registry: The registry with the base stream.
        data_dir: The data folder.
        download: Whether to download missing data.
        seed: The seed of the base stream and of the labels that change.
        scenario: task, domain or class; null uses the base stream's scenario.
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
        in_group = group == number
        units = pool.labels[in_group].unique()
        if len(units) < 2:
            name = pool.base.experiences[number // len(pool.base.tasks)].name
            raise SettingError(
                f"experience '{name}' of stream '{pool.base.name}' has only one class, so its "
                "labels cannot be wrong; use fewer experiences in the base stream"
            )
        for position, unit in enumerate(units.tolist()):
            samples = shuffled((in_group & (pool.labels == unit)).nonzero().squeeze(1), draw)
            wrong = samples[: round(rate * len(samples))]
            labels[wrong] = _others(units, position, len(wrong), kind)
    parts = [(pool.owner == k).nonzero().squeeze(1) for k in range(len(pool))]
    info = [{"wrong_labels": int((labels != pool.labels)[part].sum())} for part in parts]
    data = relabelled(pool.data, labels)
    return pool.stream("noisy_labels", parts, seed, pool.base.boundaries, info=info, data=data)


def _others(units: Tensor, position: int, n: int, kind: str) -> Tensor:
    """Return the wrong labels of n samples of a class, which are already in random order."""
    if kind == "asymmetric":
        return units[(position + 1) % len(units)].repeat(n)
    others = torch.cat([units[position + 1 :], units[:position]])
    return others[torch.arange(n) % len(others)]
