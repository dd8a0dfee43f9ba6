"""Samples in a given order, also if several datasets had to be joined unchanged."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from clframe.data.concat import JoinedData
from clframe.data.dataset import Data, keep_inputs


class OrderedData(Data):
    """Samples of another dataset in an order that it cannot have itself."""

    def __init__(self, inner: Data, order: Tensor) -> None:
        self.inner = inner
        self.order = order.cpu()
        there = order.to(inner.labels.device)
        self.labels = inner.labels[there]
        self.tasks = inner.tasks[there]
        self.transform = keep_inputs

    @property
    def repeatable(self) -> bool:
        """Whether the other dataset is repeatable."""
        return self.inner.repeatable

    def gather(self, positions: Tensor) -> Any:
        """Return the inputs at these positions, already transformed."""
        return next(self.inputs([positions]))

    def inputs(self, chunks: Sequence[Tensor]) -> Iterator[Any]:
        """Yield the samples of each chunk, as the other dataset reads them."""
        return self.inner.inputs([self.order[chunk.cpu()] for chunk in chunks])

    def subset(self, positions: Tensor) -> Data:
        """Return the samples at these positions, in this order."""
        return OrderedData(self.inner, self.order[positions.cpu()])

    def to(self, device: torch.device) -> Data:
        """Return the same data on that device."""
        return OrderedData(self.inner.to(device), self.order)


def in_order(data: Data, positions: Tensor) -> Data:
    """Return the samples at these positions, in exactly this order."""
    if isinstance(data, JoinedData | OrderedData):  # a subset of joined data is ordered by part
        return OrderedData(data, positions)
    return data.subset(positions)


def relabelled(data: Data, labels: Tensor) -> Data:
    """Return the same samples with other labels, which subsets keep."""
    if isinstance(data, JoinedData):
        sizes = [len(part) for part in data.parts]
        pieces = zip(data.parts, labels.split(sizes), strict=True)
        return JoinedData([relabelled(part, own) for part, own in pieces])
    if isinstance(data, OrderedData):
        inner = data.inner.labels.clone()
        inner[data.order.to(inner.device)] = labels.to(inner.device)
        return OrderedData(relabelled(data.inner, inner), data.order)
    other = copy.copy(data)
    other.labels = labels.to(data.labels.device)
    return other
