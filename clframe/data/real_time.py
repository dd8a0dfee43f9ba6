"""A stream that does not wait for the learner: ``trainer.step_cost``."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from clframe.data.reindexed import in_order
from clframe.data.sampler import epoch_order

if TYPE_CHECKING:
    from clframe.core.stream import Experience, Stream
    from clframe.core.trainer import TrainerSettings
    from clframe.data.dataset import Data


def drop_missed_batches(stream: Stream, settings: TrainerSettings, seed: int) -> Stream:
    """Return the stream without the samples that pass while the learner is busy.

    Steps, memories and estimates all miss them.

    Args:
        stream: The stream to learn.
        settings: The cost of a step, the batch size, and the order of the samples.
        seed: Seed of a random order.
    """
    cost = settings.step_cost
    if cost is None or cost <= 1:
        return stream

    def load(experience: Experience) -> Data:
        data = experience.data
        order = torch.arange(len(data))
        if settings.budget.shuffle:
            order = epoch_order(len(data), seed, experience.index)
        return in_order(data, in_time(order, settings.batch_size, cost))

    met = [dataclasses.replace(e, load=functools.cache(functools.partial(load, e))) for e in stream]
    return dataclasses.replace(stream, experiences=met)


def in_time(order: Tensor, batch_size: int, cost: float) -> Tensor:
    """Return the samples of those batches that arrive when the learner is free.

    Learning a batch takes the time in which ``cost`` batches arrive.

    >>> in_time(torch.arange(9), 2, 1.5).tolist()
    [0, 1, 4, 5, 6, 7]
    """
    batches = order.split(batch_size)
    taken = 1 + int((len(batches) - 1) / cost + 1e-9)
    numbers = [math.ceil(k * cost - 1e-9) for k in range(taken)]
    return torch.cat([batches[number] for number in numbers])
