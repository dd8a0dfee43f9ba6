"""The host's data as plugins see it: an experience's data, and the current batch."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

from clframe.data.dataset import Batch, Data, TensorData, keep_inputs, scale_images
from clframe.data.inputs import tensors_of
from clframe.data.labelled import as_samples
from clframe.errors import DataError, PluginError

_LABELS = ("labels", "label", "y")


def as_data(host_data: Any, task: int, name: str) -> Data:
    """Convert clframe's own data, a pair of inputs and labels, or a data set to data."""
    if isinstance(host_data, Data):
        return host_data
    if isinstance(host_data, TensorDataset) and len(host_data.tensors) == 2:
        host_data = host_data.tensors
    if isinstance(host_data, tuple | list) and len(host_data) == 2:
        x = host_data[0]
        x = {k: torch.as_tensor(v) for k, v in x.items()} if isinstance(x, dict) else x
        x = x if isinstance(x, dict) else torch.as_tensor(x)
        labels = torch.as_tensor(host_data[1])
        first = tensors_of(x)[0]
        if len(first) != len(labels):
            raise DataError(f"{name} has {len(first)} inputs and {len(labels)} labels")
        change = scale_images if first.dtype == torch.uint8 else keep_inputs
        return TensorData(x, labels, task, transform=change)
    samples = as_samples(host_data, None, name)
    if not all(isinstance(label, int) for label in samples.labels):
        raise DataError(f"{name} has labels that are names; the model's outputs are numbered")
    labels = torch.tensor(samples.labels)
    return samples.select(torch.arange(len(labels)), labels, task)


class Losses(Data):
    """Losses that the host computes in place of samples, one for each mini-batch.

    Args:
        closure: Returns the loss of a mini-batch of the host's choice, with its graph.
        batches: Number of mini-batches.
        batch_size: Nominal size of each, for plugins.
        device: Device of the model.
    """

    transform = staticmethod(keep_inputs)

    def __init__(
        self,
        closure: Callable[[], Tensor],
        batches: int,
        batch_size: int,
        device: torch.device,
    ) -> None:
        self.closure = closure
        self.labels = torch.zeros(batches * batch_size, device=device)
        self.tasks = torch.zeros(batches * batch_size, dtype=torch.long, device=device)

    def gather(self, positions: Tensor) -> Any:
        """Return the closure, for any positions."""
        return self.closure

    def subset(self, positions: Tensor) -> Losses:
        """Return the same closure."""
        return self

    def to(self, device: torch.device) -> Losses:
        """Return the same closure."""
        return self


class HostBatch(NamedTuple):
    """A batch that the host has and will put through the model."""

    x: Any
    y: Tensor
    positions: Tensor | None
    batch: Batch | None


class Batches:
    """The batches that the host has but has not yet put through the model."""

    def __init__(self) -> None:
        self.waiting: deque[HostBatch] = deque(maxlen=64)

    def announce(
        self, x: Any, y: Tensor, positions: Tensor | None = None, batch: Batch | None = None
    ) -> None:
        """Add a batch that the host will put through the model soon."""
        self.waiting.append(HostBatch(x, y, positions, batch))

    def take(self, x: Any, names: str) -> HostBatch:
        """Return the batch of these inputs by identity, otherwise the oldest one."""
        n = len(tensors_of(x)[0])
        for position, batch in enumerate(self.waiting):
            if batch.x is x:
                del self.waiting[position]
                return batch
        if not self.waiting:
            raise PluginError(
                f"{names} needs the labels of each training batch: go through "
                "`cl.loader(your_loader)`, or call `cl.batch(x, y)` before the model's pass"
            )
        batch = self.waiting.popleft()
        if len(batch.y) != n:
            raise PluginError(
                f"the model got {n} samples to train on, but the batch that `cl` was shown "
                f"has {len(batch.y)} labels: each batch goes through the model once, in order"
            )
        return batch


class _Indexed(Dataset[Any]):
    """A data set that returns each item with its position.

    Args:
        dataset: The host's data set.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __getitem__(self, position: int) -> tuple[int, Any]:
        return position, self.dataset[position]

    def __len__(self) -> int:
        return len(self.dataset)


class _Collate:
    """The host's collate function, which also returns the positions of the items.

    Args:
        collate: The host's collate function.
    """

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate = collate

    def __call__(self, items: list[tuple[int, Any]]) -> tuple[Tensor, Any]:
        return torch.tensor([position for position, _ in items]), self.collate(
            [x for _, x in items]
        )


def items_of(loader: Any) -> Iterator[tuple[Tensor | None, Any]]:
    """Yield a loader's items, each with the positions of its samples if these are known."""
    plain = not isinstance(loader, DataLoader) or loader.batch_sampler is None
    if plain or isinstance(loader.dataset, IterableDataset):
        for item in loader:
            yield None, item
        return
    with_places = copy.copy(loader)
    # A loader's attributes cannot be changed once it is made, except in this way.
    vars(with_places).update(
        dataset=_Indexed(loader.dataset), collate_fn=_Collate(loader.collate_fn), _iterator=None
    )
    yield from with_places


def labels_of(item: Any) -> tuple[Any, Tensor]:
    """Return inputs and labels of a loader's item: a pair or longer, or a mapping with labels."""
    if isinstance(item, Mapping):
        for name in _LABELS:
            if isinstance(item.get(name), Tensor):
                return None, item[name]
        raise DataError(
            f"a batch with {', '.join(map(str, item))} has no labels: it needs an entry "
            f"{' or '.join(_LABELS)}, or call cl.batch(x, y)"
        )
    if isinstance(item, tuple | list) and len(item) > 1 and isinstance(item[1], Tensor):
        return item[0], item[1]
    raise DataError(
        f"a batch is a pair of inputs and labels or a mapping, got {type(item).__name__}: call "
        "cl.batch(x, y) with inputs and labels"
    )


def check_main_process() -> None:
    """Refuse batches in a loader's worker process, which cannot reach the trainer's process."""
    if get_worker_info() is not None:
        raise PluginError(
            "cl.collate runs in a worker process of the loader, which cannot reach the trainer's "
            "process: set num_workers=0, or go through cl.loader"
        )
