"""Training and evaluation data as the loop sees it: gather by index, transform as a batch.

``TensorData`` is the normal case: compact tensors (uint8 images) that live once in memory, shared
by all experiences, which are only lists of indices into them. ``MapData`` carries any map-style
PyTorch data set through ``DataLoader`` workers. Both give the same batches for the same order.
"""

from __future__ import annotations

import abc
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from clframe.errors import DataError

Inputs: TypeAlias = "Tensor | dict[str, Tensor]"
"""One tensor, or several by name (RGB and depth, the parts of a trajectory)."""

Transform: TypeAlias = "Callable[[Any, Tensor], Any]"
"""Turns stored inputs of a batch into what the model takes; gets each sample's task as well."""

BatchLoss: TypeAlias = "Callable[[Any, Batch], Tensor]"


class Batch:
    """Samples that go through the model together.

    Args:
        x: Inputs as the model takes them.
        y: One label (output unit, action, ...) per sample.
        task: The index of each sample's task.
        weight: Of this part in the step's loss, relative to the current batch's 1.
        loss: ``loss(outputs, batch)`` to be used instead of the learner's own.
        data: What the samples were taken from; None where they were made.
        positions: Where in ``data`` each sample is.
    """

    __slots__ = ("data", "loss", "positions", "task", "weight", "x", "y")

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

    def __len__(self) -> int:
        return len(self.task)


def map_inputs(function: Callable[[Tensor], Tensor], x: Any) -> Any:
    """Apply a function to a tensor or to each tensor of a mapping.

    >>> map_inputs(lambda t: t + 1, {"a": torch.zeros(1)})
    {'a': tensor([1.])}
    """
    if isinstance(x, dict):
        return {key: function(value) for key, value in x.items()}
    return function(x)


def cat_inputs(parts: Sequence[Any]) -> Any:
    """Join inputs along the first dimension."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], dict):
        return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
    return torch.cat(list(parts))


def portions(rows: Tensor, size: int) -> Sequence[Tensor]:
    """Rows in portions of this size, the last one smaller; none of no rows.

    >>> [len(portion) for portion in portions(torch.zeros(5), 2)]
    [2, 2, 1]
    >>> portions(torch.zeros(0), 2)
    ()
    """
    return rows.split(size) if len(rows) else ()


def keep_inputs(x: Any, task: Tensor) -> Any:
    """The transform that changes nothing."""
    return x


def scale_images(x: Any, task: Tensor) -> Any:
    """Turn uint8 images into floats in 0..1."""
    return map_inputs(lambda t: t.to(torch.float32).div_(255.0), x)


class Data(abc.ABC):
    """A finite set of samples with a label and a task each."""

    labels: Tensor
    tasks: Tensor
    transform: Transform

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def repeatable(self) -> bool:
        """Whether a sample is in memory and the same each time, so that results can be kept.

        A transform that draws random numbers says so with an attribute ``random = True``.
        """
        return False

    @abc.abstractmethod
    def gather(self, positions: Tensor) -> Any:
        """The stored (untransformed) inputs at these positions."""

    @abc.abstractmethod
    def subset(self, positions: Tensor) -> Data:
        """The samples at these positions, without copying inputs."""

    @abc.abstractmethod
    def to(self, device: torch.device) -> Data:
        """The same data on a device, as far as it is held in memory."""

    def batches(self, order: Tensor, batch_size: int) -> Iterator[Batch]:
        """Batches of the samples in this order; the last one may be smaller."""
        for positions in portions(order, batch_size):
            task = self.tasks[positions]
            x = self.transform(self.gather(positions), task)
            yield Batch(x, self.labels[positions], task, data=self, positions=positions)


class TensorSource:
    """Tensors held once in memory, with a copy per device that asked for one."""

    def __init__(self, x: Any) -> None:
        self._copies: dict[torch.device, Any] = {}
        first = next(iter(x.values())) if isinstance(x, dict) else x
        self._copies[first.device] = x
        self.home: torch.device = first.device

    def on(self, device: torch.device) -> Any:
        """The tensors on this device."""
        if device not in self._copies:
            self._copies[device] = map_inputs(lambda t: t.to(device), self._copies[self.home])
        return self._copies[device]


class TensorData(Data):
    """Samples of a tensor source.

    Args:
        source: The tensors (first dimension: samples), or a source that holds them.
        labels: One label per sample of this data (not of the source).
        tasks: One task index per sample, or one for all.
        indices: Which samples of the source; None for all.
        transform: Applied to each gathered batch.
    """

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
        self._x = self.source.on(device)

    @property
    def repeatable(self) -> bool:
        """Whether the transform gives the same inputs each time."""
        return not getattr(self.transform, "random", False)

    def gather(self, positions: Tensor) -> Any:
        """The stored inputs at these positions."""
        indices = self.indices[positions]
        return map_inputs(lambda t: t.index_select(0, indices), self._x)

    def subset(self, positions: Tensor) -> TensorData:
        """The samples at these positions; inputs are shared."""
        positions = positions.to(self.labels.device)
        return TensorData(
            self.source,
            self.labels[positions],
            self.tasks[positions],
            self.indices[positions],
            self.transform,
        )

    def to(self, device: torch.device) -> TensorData:
        """The same data with its source on that device."""
        if self.labels.device == device:
            return self
        return TensorData(
            self.source,
            self.labels.to(device),
            self.tasks.to(device),
            self.indices.to(device),
            self.transform,
        )

    def batches(self, order: Tensor, batch_size: int) -> Iterator[Batch]:
        """Batches in this order; labels and tasks are laid out once, inputs batch by batch."""
        order = order.to(self.labels.device)
        indices = portions(self.indices[order], batch_size)
        labels = portions(self.labels[order], batch_size)
        tasks = portions(self.tasks[order], batch_size)
        places = portions(order, batch_size)
        x = self._x
        for place, index, label, task in zip(places, indices, labels, tasks, strict=True):
            if isinstance(x, dict):
                raw: Any = {key: value.index_select(0, index) for key, value in x.items()}
            else:
                raw = x.index_select(0, index)
            yield Batch(self.transform(raw, task), label, task, data=self, positions=place)


class MapData(Data):
    """Samples of a map-style data set that yields ``(x, y)``, read by worker processes.

    Args:
        dataset: Anything with ``__len__`` and ``__getitem__``; ``x`` a tensor or a dict of them.
        labels: All labels, so that nothing must be read to know them.
        tasks: One task index per sample, or one for all.
        indices: Which samples of the data set; None for all.
        transform: Applied to each collated batch.
        num_workers: Worker processes; 0 reads in this one.
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
        places = self.indices[positions.cpu()].tolist()
        items = list(_readable(self.dataset[i][0] for i in places))
        if isinstance(items[0], dict):
            stacked: Any = {key: torch.stack([i[key] for i in items]) for key in items[0]}
        else:
            stacked = torch.stack(items)
        return map_inputs(lambda t: t.to(self.device), stacked)

    def subset(self, positions: Tensor) -> MapData:
        """The samples at these positions."""
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
        """The same data; batches will be moved to that device."""
        other = self.subset(torch.arange(len(self)))
        other.device = device
        return other

    def batches(self, order: Tensor, batch_size: int) -> Iterator[Batch]:
        """Batches in this order, read ahead by the workers."""
        from torch.utils.data import DataLoader

        chunks = portions(order.cpu(), batch_size)
        loader: DataLoader[Any] = DataLoader(
            self.dataset,
            batch_sampler=[self.indices[chunk].tolist() for chunk in chunks],
            num_workers=self.num_workers,
            # The seed of the workers, another one for each order. Left out, it would be drawn from
            # the run's own generator, once more in a run that is taken up within an epoch.
            generator=torch.Generator().manual_seed(_number_of(order)),
        )
        for positions, (x, _) in zip(chunks, _readable(loader), strict=True):
            task = self.tasks[positions].to(self.device)
            raw = map_inputs(lambda t: t.to(self.device), x)
            label = self.labels[positions].to(self.device)
            yield Batch(self.transform(raw, task), label, task, data=self, positions=positions)


def _number_of(order: Tensor) -> int:
    """A number that depends on an order and on nothing else."""
    return int((order.cpu() * torch.arange(1, len(order) + 1)).sum())


def _readable(items: Iterable[Any]) -> Iterator[Any]:
    """The same items; what goes wrong when they are read is said of the data."""
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
                f"data cannot be read: {line}; is a file missing, damaged or cut off?"
            ) from error
        yield item


class JoinedData(Data):
    """Several data sets in a row; used where their samples cannot be indexed as one source."""

    def __init__(self, parts: Sequence[Data]) -> None:
        self.parts = list(parts)
        self.labels = torch.cat([part.labels for part in parts])
        self.tasks = torch.cat([part.tasks for part in parts])
        sizes = torch.tensor([len(part) for part in parts], device=self.labels.device)
        self._ends = sizes.cumsum(0)
        self._starts = self._ends - sizes
        self.transform = keep_inputs

    @property
    def repeatable(self) -> bool:
        """Whether all parts are."""
        return all(part.repeatable for part in self.parts)

    def gather(self, positions: Tensor) -> Any:
        """The inputs at these positions, transformed already, since each part has its own way."""
        owner = torch.searchsorted(self._ends, positions, right=True)
        pieces, places = [], []
        for number, part in enumerate(self.parts):
            where = (owner == number).nonzero().squeeze(1)
            if len(where):
                local = positions[where] - self._starts[number]
                pieces.append(part.transform(part.gather(local), part.tasks[local]))
                places.append(where)
        back = torch.cat(places).argsort()
        return map_inputs(lambda t: t[back], cat_inputs(pieces))

    def subset(self, positions: Tensor) -> Data:
        """The samples at these positions, in this order of parts."""
        owner = torch.searchsorted(self._ends, positions, right=True)
        return join(
            [
                part.subset(positions[owner == number] - self._starts[number])
                for number, part in enumerate(self.parts)
                if bool((owner == number).any())
            ]
        )

    def to(self, device: torch.device) -> Data:
        """The same data on that device."""
        return JoinedData([part.to(device) for part in self.parts])


def join(parts: Sequence[Data]) -> Data:
    """Put data sets together; samples of one source stay one indexed data set."""
    first = parts[0]
    if len(parts) == 1:
        return first
    tensors = [part for part in parts if isinstance(part, TensorData)]
    if (
        len(tensors) == len(parts)
        and isinstance(first, TensorData)
        and all(p.source is first.source and p.transform == first.transform for p in tensors)
    ):
        return TensorData(
            first.source,
            torch.cat([p.labels for p in tensors]),
            torch.cat([p.tasks for p in tensors]),
            torch.cat([p.indices for p in tensors]),
            first.transform,
        )
    return JoinedData(parts)
