"""Several datasets as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from clframe.data.dataset import Data, MapData, TensorData, keep_inputs
from clframe.data.inputs import cat_inputs, map_inputs


class JoinedData(Data):
    """Several datasets in a row, for samples that cannot be indexed as one source."""

    def __init__(self, parts: Sequence[Data]) -> None:
        # Flattened, so that only the outermost object distributes positions to its parts.
        self.parts: list[Data] = [
            inner
            for part in parts
            for inner in (part.parts if isinstance(part, JoinedData) else [part])
        ]
        self.labels = torch.cat([part.labels for part in parts])
        self.tasks = torch.cat([part.tasks for part in parts])
        # On the host, like all bookkeeping of parts, so that no step waits for it.
        sizes = torch.tensor([len(part) for part in self.parts])
        self._ends = sizes.cumsum(0)
        self._starts = self._ends - sizes
        self.transform = keep_inputs

    @property
    def repeatable(self) -> bool:
        """Whether all parts are repeatable."""
        return all(part.repeatable for part in self.parts)

    def gather(self, positions: Tensor) -> Any:
        """Return the inputs at these positions, already transformed, because transforms differ."""
        return next(self.inputs([positions]))

    def inputs(self, chunks: Sequence[Tensor]) -> Iterator[Any]:
        """Yield the samples in order; each part reads ahead if it can."""
        if not chunks:
            return
        sizes = [len(chunk) for chunk in chunks]
        chunks = torch.cat(list(chunks)).cpu().split(sizes)
        owners = [torch.searchsorted(self._ends, chunk, right=True) for chunk in chunks]
        ranks = torch.cat([owner.argsort(stable=True).argsort() for owner in owners])
        # A part without samples is not read; workers start when the first sample is due.
        streams = {
            number: self._part_inputs(number, chunks, owners)
            for number in torch.cat(owners).unique().tolist()
        }
        for owner, rank in zip(owners, ranks.to(self.labels.device).split(sizes), strict=True):
            pieces = [next(streams[number]) for number in owner.unique().tolist()]
            if len(pieces) == 1:
                yield pieces[0]
                continue
            joined = cat_inputs(pieces)
            yield map_inputs(lambda t, rank=rank: t[rank.to(t.device)], joined)  # type: ignore[misc]

    def _part_inputs(
        self, number: int, chunks: Sequence[Tensor], owners: Sequence[Tensor]
    ) -> Iterator[Any]:
        mine = [
            chunk[owner == number] - self._starts[number]
            for chunk, owner in zip(chunks, owners, strict=True)
        ]
        return self.parts[number].inputs([chunk for chunk in mine if len(chunk)])

    def subset(self, positions: Tensor) -> Data:
        """Return the samples at these positions, in this order of parts."""
        positions = positions.cpu()
        owner = torch.searchsorted(self._ends, positions, right=True)
        return join(
            [
                part.subset(positions[owner == number] - self._starts[number])
                for number, part in enumerate(self.parts)
                if bool((owner == number).any())
            ]
        )

    def to(self, device: torch.device) -> Data:
        """Return the same data on that device."""
        return JoinedData([part.to(device) for part in self.parts])


def join(parts: Sequence[Data]) -> Data:
    """Join datasets; samples of one source stay one indexed dataset."""
    first = parts[0]
    if len(parts) == 1:
        return first
    own = first.joined_with(parts[1:])
    if own is not None:
        return own
    tensors = [part for part in parts if isinstance(part, TensorData)]
    mapped = [part for part in parts if isinstance(part, MapData)]
    if all(part.transform == first.transform for part in parts):
        if len(tensors) == len(parts) and len({id(part.source) for part in tensors}) == 1:
            return TensorData(tensors[0].source, *_columns(tensors), first.transform)
        if len(mapped) == len(parts) and len({id(part.dataset) for part in mapped}) == 1:
            head = mapped[0]
            joined = MapData(head.dataset, *_columns(mapped), head.transform, head.num_workers)
            joined.device = head.device
            return joined
    return JoinedData(parts)


def _columns(parts: Sequence[TensorData | MapData]) -> tuple[Tensor, Tensor, Tensor]:
    """Labels, tasks and indices of all parts."""
    return (
        torch.cat([part.labels for part in parts]),
        torch.cat([part.tasks for part in parts]),
        torch.cat([part.indices for part in parts]),
    )
