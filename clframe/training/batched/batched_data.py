"""Batches of several seeds, gathered in one operation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clframe.data.concat import join
from clframe.data.dataset import Batch, Data
from clframe.data.inputs import map_inputs


class Chunk(NamedTuple):
    """A batch of every seed; all tensors have seeds as their first dimension."""

    x: Any
    y: Tensor
    task: Tensor
    positions: Tensor


class Feed:
    """Batches of several datasets of equal length, gathered in one operation.

    Args:
        data: One dataset per seed.
    """

    def __init__(self, data: Sequence[Data]) -> None:
        self.data = list(data)
        self._joined = join(self.data)
        self._starts = torch.tensor([0, *(len(d) for d in data[:-1])]).cumsum(0)[:, None]

    def chunks(self, orders: Tensor, size: int) -> Iterator[Chunk]:
        """Yield batches in these orders, one row for each seed."""
        seeds = len(orders)
        offset = orders + self._starts
        batches = self._joined.batches(
            torch.cat([part.flatten() for part in offset.split(size, 1)]), size * seeds
        )
        there = orders.to(self.data[0].labels.device)  # once, not in each step
        for positions, batch in zip(there.split(size, 1), batches, strict=True):
            shape = positions.shape
            yield Chunk(
                map_inputs(lambda t, s=shape: t.view(*s, *t.shape[1:]), batch.x),  # type: ignore[misc]
                batch.y.view(shape),
                batch.task.view(shape),
                positions,
            )

    def batch(self, chunk: Chunk, index: int) -> Batch:
        """Return one seed's batch of a chunk."""
        return Batch(
            map_inputs(lambda t: t[index], chunk.x),
            chunk.y[index],
            chunk.task[index],
            data=self.data[index],
            positions=chunk.positions[index],
        )


def stack_inputs(inputs: Sequence[Any]) -> Any:
    """Stack inputs of equal shape, seeds first."""
    if isinstance(inputs[0], dict):
        return {key: torch.stack([x[key] for x in inputs]) for key in inputs[0]}
    return torch.stack(list(inputs))
