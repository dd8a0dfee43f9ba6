"""Class-incremental learning with repetition: classes recur at random."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from clframe.core.registry import Registry
from clframe.core.stream import Scenario, Stream
from clframe.data.sampler import in_passes
from clframe.errors import SettingError
from clframe.streams.lifetime.stream import base_stream
from clframe.streams.task_free.pool import Pool, check_share, generator, shuffled
from clframe.utils.setting_checks import at_least

First = Literal["geometric", "zipf", "uniform"]


def repetition(
    registry: Registry,
    data_dir: Path,
    download: bool = False,
    seed: int = 0,
    scenario: Scenario | None = None,
    base: str | dict[str, Any] = "split_mnist",
    n_experiences: int = 10,
    repeat: float = 0.2,
    first: First = "geometric",
    parameter: float = 0.3,
    samples: int | None = None,
) -> Stream:
    """Each class first occurs in a random experience and recurs later with a probability.

    The sampling-based generator of Hemati et al., "Class-Incremental Learning with Repetition"
    (2023): the first occurrence of each class is drawn from a distribution over experiences; from
    then on, it occurs in each experience with a probability. All classes of an experience have the
    same number of its samples (the first ones one more if it does not divide evenly, and never more
    than there are). A recurring class shows new samples as long as there are any. The paper leaves
    two points open: here, the earliest class is always in the first experience, and an experience
    without any class repeats one that has occurred.

    Args:
        registry: The registry with the base stream.
        data_dir: The data folder.
        download: Whether to download missing data.
        seed: The seed of the base stream and of all random choices.
        scenario: task or class; null uses the base stream's scenario.
        base: The base stream: a name, or a mapping with ``name`` and settings.
        n_experiences: Number of experiences.
        repeat: Probability that a class recurs in an experience.
        first: Distribution of the first occurrence over experiences k = 1, 2, ...: ``geometric``
            (parameter p: (1-p)^(k-1) p), ``zipf`` (parameter s: k^-s) or ``uniform``.
        parameter: The parameter of that distribution.
        samples: Samples per experience; null is the mean of the base stream's experiences.
    """
    at_least(n_experiences, 1, "stream.n_experiences")
    at_least(samples, 1, "stream.samples")
    check_share(repeat, "stream.repeat")
    weights = first_occurrence(first, parameter, n_experiences)
    pool = Pool.of(base_stream(registry, base, scenario, seed, data_dir, download))
    units = [unit for group in pool.classes() for unit in group]
    draw = generator(seed)
    present = _present(len(units), weights, repeat, draw)
    size = samples or max(1, len(pool.labels) // len(pool))
    shown = dict.fromkeys(units, 0)
    samples_of = {unit: pool.of_class(unit) for unit in units}
    parts = []
    for row in present.tolist():
        classes = [unit for unit, is_here in zip(units, row, strict=True) if is_here]
        pieces = []
        for number, unit in enumerate(classes):
            n = min(size // len(classes) + (number < size % len(classes)), len(samples_of[unit]))
            if n:
                own = in_passes(len(samples_of[unit]), shown[unit], n, seed, unit)
                pieces.append(samples_of[unit][own])
                shown[unit] += n
        parts.append(shuffled(torch.cat(pieces), draw))
    names = [f"exp{number}" for number in range(n_experiences)]
    return pool.stream("repetition", parts, seed, pool.base.boundaries, names)


def first_occurrence(first: First, parameter: float, n: int) -> Tensor:
    """Return the probability of each experience to be the first with a class.

    >>> first_occurrence("geometric", 0.5, 3)
    tensor([0.5714, 0.2857, 0.1429])
    """
    k = torch.arange(1, n + 1, dtype=torch.float)
    if first == "geometric":
        if not 0 < parameter < 1:
            raise SettingError(
                f"stream.parameter of a geometric distribution must be between 0 and 1, got "
                f"{parameter!r}"
            )
        weights = (1 - parameter) ** (k - 1) * parameter
    elif first == "zipf":
        at_least(parameter, 0, "stream.parameter")
        weights = k**-parameter
    else:
        weights = torch.ones(n)
    return weights / weights.sum()


def _present(n_classes: int, weights: Tensor, repeat: float, draw: torch.Generator) -> Tensor:
    """Return a mask of the classes in each experience, ``[experiences, classes]``."""
    n = len(weights)
    starts = torch.multinomial(weights, n_classes, replacement=True, generator=draw)
    starts -= starts.min()
    number = torch.arange(n)[:, None]
    again = torch.rand(n, n_classes, generator=draw) < repeat
    present = (number == starts) | ((number > starts) & again)
    for k in (~present.any(1)).nonzero().squeeze(1).tolist():
        occurred = (starts < k).nonzero().squeeze(1)
        present[k, occurred[torch.randint(len(occurred), (1,), generator=draw)]] = True
    return present
