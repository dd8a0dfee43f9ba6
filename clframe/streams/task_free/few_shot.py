"""Few-shot class-incremental learning: a base session, then N classes with K samples at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from clframe.core.registry import Registry
from clframe.core.stream import Scenario, Stream
from clframe.errors import SettingError
from clframe.streams.lifetime.stream import base_stream
from clframe.streams.task_free.pool import Pool, generator, shuffled
from clframe.utils.setting_checks import at_least


def few_shot(
    registry: Registry,
    data_dir: Path,
    download: bool = False,
    seed: int = 0,
    scenario: Scenario | None = None,
    base: str | dict[str, Any] = "split_mnist",
    base_classes: int | None = None,
    way: int = 2,
    shot: int = 5,
) -> Stream:
    """A base session with all samples of many classes, then sessions of few samples of few classes.

    The protocol of Tao et al., "Few-Shot Class-Incremental Learning" (2020): CIFAR-100 and
    miniImageNet have 60 classes in the base session and 8 sessions of 5 classes with 5 samples;
    CUB-200 has 100 classes and 10 sessions of 10 classes with 5 samples. Classes follow the base
    stream's order, and its tasks are evaluated.

    Args:
        registry: The registry with the base stream.
        data_dir: The data folder.
        download: Whether to download missing data.
        seed: The seed of the base stream and of the samples.
        scenario: task or class; null uses the base stream's scenario.
        base: The base stream: a name, or a mapping with ``name`` and settings.
        base_classes: Classes in the base session; null is three fifths of all.
        way: Classes per later session (N).
        shot: Samples per class in later sessions (K).
    """
    at_least(base_classes, 1, "stream.base_classes")
    at_least(way, 1, "stream.way")
    at_least(shot, 1, "stream.shot")
    pool = Pool.of(base_stream(registry, base, scenario, seed, data_dir, download))
    units = [unit for group in pool.classes() for unit in group]
    n = round(0.6 * len(units)) if base_classes is None else base_classes
    if n >= len(units):
        raise SettingError(
            f"stream.base_classes={n} leaves no classes for later sessions: stream "
            f"'{pool.base.name}' has {len(units)}"
        )
    if (len(units) - n) % way:
        raise SettingError(
            f"stream.way={way} must divide the {len(units) - n} classes that {n} base classes "
            f"leave of {len(units)}"
        )
    draw = generator(seed)
    sessions = [units[:n], *(units[k : k + way] for k in range(n, len(units), way))]
    parts = [torch.cat([pool.of_class(unit) for unit in sessions[0]])]
    for session in sessions[1:]:
        pieces = []
        for unit in session:
            samples = pool.of_class(unit)
            if len(samples) < shot:
                raise SettingError(
                    f"stream.shot={shot}, but class {unit} of stream '{pool.base.name}' has "
                    f"{len(samples)} samples"
                )
            pieces.append(shuffled(samples, draw)[:shot])
        parts.append(torch.cat(pieces))
    names = ["base", *(f"session{number}" for number in range(1, len(sessions)))]
    info = [{"units": list(session)} for session in sessions]
    parts = [shuffled(part, draw) for part in parts]
    return pool.stream("few_shot", parts, seed, pool.base.boundaries, names, info)
