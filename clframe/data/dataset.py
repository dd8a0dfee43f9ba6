"""Training and evaluation data: gather by index, transform as a batch.

``TensorData`` is the normal case: compact tensors (uint8 images) that live once in memory or in a
mapped file, shared by all experiences, which are only lists of indices into them (see
:mod:`clframe.data.storage` for their location). ``MapData`` reads any map-style PyTorch dataset
through worker processes. All give the same batches for the same order; several of them become
one in :mod:`clframe.data.concat`.
"""

from __future__ import annotations

import abc
import copy
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self, TypeAlias

import torch
from torch import Tensor

from clframe.data import loader as workers
from clframe.data.inputs import Inputs as Inputs
from clframe.data.inputs import cat_inputs as cat_inputs
from clframe.data.inputs import map_inputs as map_inputs
from clframe.data.inputs import tensors_of
from clframe.data.storage import TensorSource as TensorSource
from clframe.data.storage import fetch, send
from clframe.errors import DataError

Transform: TypeAlias = "Callable[[Any, Tensor], Any]"
"""Converts stored inputs of a batch into the model's; also receives each sample's task."""

BatchLoss: TypeAlias = "Callable[[Any, Batch], Tensor]"


class Batch:
    """Samples that go through the model together.

    Args:
        x: Inputs as the model takes them.
        y: One label (output unit, action, ...) per sample.
        task: The index of each sample's task.
        weight: Weight in the step's loss, relative to the current batch's 1.
        loss: ``loss(outputs, batch)`` to be used instead of the learner's own.
        data: The dataset of the samples; None if they were generated.
        positions: Position of each sample in ``data``.

    ``source`` is the name of the plugin that added it to a step.

    Example:
        >>> import torch
        >>> batch = Batch(
        ...     torch.zeros(4, 8), torch.tensor([0, 1, 0, 1]), torch.zeros(4, dtype=torch.long)
        ... )
        >>> len(batch.y), batch.weight
        (4, 1.0)
    """

    __slots__ = ("data", "loss", "positions", "source", "task", "weight", "x", "y")

    def __init__(
        self,
        x: Any,
        y: Tensor,
        task: Tensor,
        weight: float = 1.0,
        loss: BatchLoss | None = None,
        data: Data | None = None,
        positions: Tensor | None = None,
    ) -> None:
        self.x = x
        self.y = y
        self.task = task
        self.weight = weight
        self.loss = loss
        self.data = data
        self.positions = positions
        self.source = ""

    def __len__(self) -> int:
        return len(self.task)


def portions(rows: Tensor, size: int) -> Sequence[Tensor]:
    """Split rows into chunks of this size, the last one smaller; no chunks for no rows.

    >>> [len(portion) for portion in portions(torch.zeros(5), 2)]
    [2, 2, 1]
    >>> portions(torch.zeros(0), 2)
    ()
    """
    return rows.split(size) if len(rows) else ()


def keep_inputs(x: Any, task: Tensor) -> Any:
    """Return the inputs unchanged."""
    return x


def scale_images(x: Any, task: Tensor) -> Any:
    """Convert uint8 images into floats in 0..1."""
    return map_inputs(lambda t: t.to(torch.float32).div_(255.0), x)


class Data(abc.ABC):
    """A finite set of samples, each with a label and a task.

    Example:
        >>> import torch
        >>> from clframe import TensorData
        >>> data = TensorData(torch.zeros(10, 4), torch.arange(10) % 2)
        >>> len(data), [len(batch.y) for batch in data.batches(torch.arange(10), 4)]
        (10, [4, 4, 2])
    """

    labels: Tensor
    tasks: Tensor
    transform: Transform
    on_all_ranks: ClassVar[bool] = False
    """Whether each of several processes has all batches itself, with nothing to read."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def repeatable(self) -> bool:
        """Whether samples are in memory and the same each time, so that results can be cached.

        A transform that draws random numbers declares it with an attribute ``random = True``.
        """
        return False

    @abc.abstractmethod
    def gather(self, positions: Tensor) -> Any:
        """Return the stored (untransformed) inputs at these positions."""

    @abc.abstractmethod
    def subset(self, positions: Tensor) -> Data:
        """Return the samples at these positions, without copying inputs."""

    @abc.abstractmethod
    def to(self, device: torch.device) -> Data:
        """Return the same data on a device, as far as it is in memory."""

    def joined_with(self, others: Sequence[Data]) -> Data | None:
        """Return this data joined with others in its own way, or None for the default way."""
        return None

    def inputs(self, chunks: Sequence[Tensor]) -> Iterator[Any]:
        """Yield the model's inputs for the samples at these positions, chunk after chunk."""
        if not chunks:
            return
        # One copy for all chunks, so that no step waits for its own.
        order = torch.cat(list(chunks)).to(self.labels.device)
        for positions in order.split([len(chunk) for chunk in chunks]):
            yield self.transform(self.gather(positions), self.tasks[positions])

    def batches(self, order: Tensor, batch_size: int) -> Iterator[Batch]:
        """Yield batches of the samples in this order; the last one may be smaller."""
        inputs = self.inputs(portions(order, batch_size))
        # Labels and tasks are gathered once, so that no step waits for a copy of indices.
        there = order.to(self.labels.device)
        labels = portions(self.labels[there], batch_size)
        tasks = portions(self.tasks[there], batch_size)
        chunks = portions(there, batch_size)
        for x, label, task, chunk in zip(inputs, labels, tasks, chunks, strict=True):
            yield Batch(x, label, task, data=self, positions=chunk)


class IndexedData(Data):
    """Samples with columns of numbers, over tensors that all subsets share."""

    columns: ClassVar[tuple[str, ...]]
    """The attributes with an entry for each sample; the labels are one of them."""

    @property
    def repeatable(self) -> bool:
        """Whether the transform gives the same inputs each time."""
        return not getattr(self.transform, "random", False)

    def subset(self, positions: Tensor) -> Self:
        """Return the samples at these positions; inputs are shared."""
        positions = positions.to(self.labels.device)
        return self._with_columns(lambda column: column[positions])

    def to(self, device: torch.device) -> Self:
        """Return the same data with its inputs on that device."""
        if self.labels.device == device:
            return self
        return self._with_columns(lambda column: column.to(device))

    def _with_columns(self, change: Callable[[Tensor], Tensor]) -> Self:
        other = copy.copy(self)
        for name in self.columns:
            setattr(other, name, change(getattr(self, name)))
        return other


class TensorData(IndexedData):
    """Samples of a tensor source.

    Args:
        source: The tensors (first dimension: samples), or a source that holds them.
        labels: One label per sample of this data (not of the source).
        tasks: One task index per sample, or one for all.
        indices: Which samples of the source; None for all.
        transform: Applied to each gathered batch.

    Example:
        >>> import torch
        >>> images = torch.full((2, 1, 2, 2), 255, dtype=torch.uint8)  # scaled to 0..1 when used
        >>> data = TensorData(images, torch.tensor([3, 7]))
        >>> next(data.batches(torch.tensor([0]), 1)).x.max().item()
        1.0
    """

    columns = ("labels", "tasks", "indices")
    on_all_ranks = True

    def __init__(
        self,
        source: TensorSource | Any,
        labels: Tensor,
        tasks: Tensor | int = 0,
        indices: Tensor | None = None,
        transform: Transform = scale_images,
    ) -> None:
        self.source = source if isinstance(source, TensorSource) else TensorSource(source)
        self.transform = transform
        self.labels = labels
        device = labels.device
        self.indices = torch.arange(len(labels), device=device) if indices is None else indices
        self.tasks = (
            torch.full((len(labels),), tasks, dtype=torch.long, device=device)
            if isinstance(tasks, int)
            else tasks
        )
        if not len(self.labels) == len(self.indices) == len(self.tasks):
            raise DataError(
                f"data needs one label and one task per sample: {len(self.indices)} samples, "
                f"{len(self.labels)} labels, {len(self.tasks)} tasks"
            )

    def gather(self, positions: Tensor) -> Any:
        """Return the stored inputs at these positions."""
        device = self.labels.device
        x = self.source.to(device)
        home = tensors_of(x)[0].device
        return fetch(x, self.indices[positions].to(home), device)

    def inputs(self, chunks: Sequence[Tensor]) -> Iterator[Any]:
        """Return inputs chunk after chunk; this call already gathers their indices."""
        if not chunks:
            return iter(())
        device = self.labels.device
        order = torch.cat(list(chunks)).to(device)
        sizes = [len(chunk) for chunk in chunks]
        x = self.source.to(device)
        home = tensors_of(x)[0].device
        indices = self.indices[order].to(home).split(sizes)
        return self._gathered(x, home != device, indices, self.tasks[order].split(sizes))

    def _gathered(
        self, x: Any, away: bool, indices: Sequence[Tensor], tasks: Sequence[Tensor]
    ) -> Iterator[Any]:
        for index, task in zip(indices, tasks, strict=True):
            if away:
                raw: Any = fetch(x, index, task.device)
            elif isinstance(x, dict):
                raw = {key: value.index_select(0, index) for key, value in x.items()}
            else:
                raw = x.index_select(0, index)
            yield self.transform(raw, task)


class MapData(Data):
    """Samples of a map-style dataset of ``(x, y)``, read by worker processes.

    Args:
        dataset: Any object with ``__len__`` and ``__getitem__``; ``x`` a tensor or a dict of them.
        labels: All labels, so that nothing must be read to know them.
        tasks: One task index per sample, or one for all.
        indices: Which samples of the dataset; None for all.
        transform: Applied to each collated batch.
        num_workers: Worker processes; 0 reads in the main process.

    Example:
        >>> import torch
        >>> pairs = [(torch.zeros(4), 0), (torch.ones(4), 1)]  # any Dataset of (input, label)
        >>> data = MapData(pairs, torch.tensor([0, 1]))
        >>> next(data.batches(torch.tensor([1]), 1)).x.tolist()
        [[1.0, 1.0, 1.0, 1.0]]
    """

    def __init__(
        self,
        dataset: Any,
        labels: Tensor,
        tasks: Tensor | int = 0,
        indices: Tensor | None = None,
        transform: Transform = keep_inputs,
        num_workers: int = 0,
    ) -> None:
        self.dataset = dataset
        self.labels = labels
        self.transform = transform
        self.num_workers = num_workers
        self.device = torch.device("cpu")
        self.indices = torch.arange(len(labels)) if indices is None else indices.cpu()
        self.tasks = (
            torch.full((len(labels),), tasks, dtype=torch.long) if isinstance(tasks, int) else tasks
        )

    def gather(self, positions: Tensor) -> Any:
        """Read and collate the inputs at these positions, in this process."""
        from torch.utils.data import default_collate

        indices = self.indices[positions.cpu()].tolist()
        items = list(_readable(self.dataset[i][0] for i in indices))
        return map_inputs(lambda t: send(t, self.device), default_collate(items))

    def subset(self, positions: Tensor) -> MapData:
        """Return the samples at these positions."""
        positions = positions.cpu()
        other = MapData(
            self.dataset,
            self.labels[positions],
            self.tasks[positions],
            self.indices[positions],
            self.transform,
            self.num_workers,
        )
        other.device = self.device
        return other

    def to(self, device: torch.device) -> MapData:
        """Return the same data; batches will be moved to that device."""
        other = self.subset(torch.arange(len(self)))
        other.labels, other.tasks = other.labels.to(device), other.tasks.to(device)
        other.device = device
        return other

    def inputs(self, chunks: Sequence[Tensor]) -> Iterator[Any]:
        """Yield the samples of each chunk, read ahead by the workers if there are any."""
        if not chunks:
            return
        read = self._read_ahead(chunks) if self.num_workers else map(self.gather, chunks)
        order = torch.cat(list(chunks)).to(self.tasks.device)
        tasks = self.tasks[order].to(self.device).split([len(chunk) for chunk in chunks])
        for task, raw in zip(tasks, read, strict=True):
            yield self.transform(raw, task)

    def _read_ahead(self, chunks: Sequence[Tensor]) -> Iterator[Any]:
        pool = workers.pool_of(self.dataset, self.num_workers, self.device.type == "cuda")
        indices = [self.indices[chunk.cpu()].tolist() for chunk in chunks]
        for x, _ in _readable(pool.read(indices)):
            yield map_inputs(lambda t: t.to(self.device, non_blocking=True), x)

    def batches(self, order: Tensor, batch_size: int) -> Iterator[Batch]:
        """Yield batches in this order."""
        for batch in super().batches(order.cpu(), batch_size):
            batch.y, batch.task = batch.y.to(self.device), batch.task.to(self.device)
            yield batch


def _readable(items: Iterable[Any]) -> Iterator[Any]:
    """Yield the items; raise DataError for an error while reading one."""
    iterator = iter(items)
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        except (OSError, EOFError, ValueError, zlib.error) as error:
            # A worker puts its traceback before the message.
            line = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise DataError(
                f"data cannot be read: {line}; is a file missing, damaged or truncated?"
            ) from error
        yield item
