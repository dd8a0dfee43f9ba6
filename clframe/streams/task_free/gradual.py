"""Experiences that blend into each other: around each boundary, both kinds of samples occur."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clframe.core.registry import Registry
from clframe.core.stream import Scenario, Stream
from clframe.errors import SettingError
from clframe.streams.lifetime.stream import base_stream
from clframe.streams.task_free.pool import Pool, generator, shuffled


def gradual(
    registry: Registry,
    data_dir: Path,
    download: bool = False,
    seed: int = 0,
    scenario: Scenario | None = None,
    base: str | dict[str, Any] = "split_mnist",
    width: float = 0.5,
) -> Stream:
    """Around each boundary the share of the next experience's samples rises linearly from 0 to 1.

    At position u (0 to 1) of a transition, a sample belongs to the next experience with probability
    u. All samples occur once, and experiences are as long as the base stream's: the first half of a
    transition belongs to one experience, the second half to the next. The order matters within a
    transition, so ``trainer.passes=1`` shows the drift itself; with epochs, an experience is
    learned as a mixture.

    Args:
        registry: The registry with the base stream.
        data_dir: The data folder.
        download: Whether to download missing data.
        seed: The seed of the base stream and of the order.
        scenario: task, domain or class; null uses the base stream's scenario.
        base: The base stream: a name, or a mapping with ``name`` and settings.
        width: Length of a transition as a share of the smaller of the two experiences; at 1, the
            transitions are adjacent.
    """
    if not 0 < width <= 1:
        raise SettingError(f"stream.width must be above 0 and at most 1, got {width!r}")
    pool = Pool.of(base_stream(registry, base, scenario, seed, data_dir, download))
    if len(pool) < 2:
        raise SettingError(f"stream '{pool.base.name}' has only one experience; drift needs two")
    draw = generator(seed)
    parts = [shuffled((pool.owner == k).nonzero().squeeze(1), draw) for k in range(len(pool))]
    for k in range(len(parts) - 1):
        n = int(width / 2 * min(len(parts[k]), len(parts[k + 1])))
        mixed = _mixed(parts[k][len(parts[k]) - n :], parts[k + 1][:n], draw)
        parts[k] = torch.cat([parts[k][: len(parts[k]) - n], mixed[:n]])
        parts[k + 1] = torch.cat([mixed[n:], parts[k + 1][n:]])
    return pool.stream("gradual", parts, seed, boundaries=False)


def _mixed(old: Tensor, new: Tensor, draw: torch.Generator) -> Tensor:
    """Mix both in equal numbers, with the share of new samples rising linearly.

    New samples' positions have the density 2u, old ones' 2(1 - u): the sum is uniform, and the
    share of new samples is u. One position is drawn in each n-th quantile of the distribution.
    """
    n = len(old)
    steps = torch.arange(n)
    rising = ((steps + torch.rand(n, generator=draw)) / n).sqrt()
    falling = 1 - ((steps + torch.rand(n, generator=draw)) / n).sqrt()
    order = torch.cat([falling, rising]).argsort(stable=True)
    return torch.cat([old, new])[order]
