"""What the host learns from, as plugins see it: an experience's data, and the batch at hand."""

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


def as_data(given: Any, task: int, what: str) -> Data:
    """Data of what the host gives: clframe's own, a pair of inputs and labels, or a data set."""
    if isinstance(given, Data):
        return given
    if isinstance(given, TensorDataset) and len(given.tensors) == 2:
        given = given.tensors
    if isinstance(given, tuple | list) and len(given) == 2:
        x = given[0]
        x = {k: torch.as_tensor(v) for k, v in x.items()} if isinstance(x, dict) else x
        x = x if isinstance(x, dict) else torch.as_tensor(x)
        labels = torch.as_tensor(given[1])
        first = tensors_of(x)[0]
        if len(first) != len(labels):
            raise DataError(f"{what} has {len(first)} inputs and {len(labels)} labels")
        change = scale_images if first.dtype == torch.uint8 else keep_inputs
        return TensorData(x, labels, task, transform=change)
    samples = as_samples(given, None, what)
    if not all(isinstance(label, int) for label in samples.labels):
        raise DataError(f"{what} has labels that are names; the model's outputs are numbered")
    labels = torch.tensor(samples.labels)
    return samples.select(torch.arange(len(labels)), labels, task)


class Losses(Data):
    """Not samples but losses that the host computes, one for each mini-batch that is asked for.

    Args:
        closure: Makes the loss of a mini-batch of the host's choice, with its graph.
        batches: How many of them.
        batch_size: What a plugin takes to be the size of each.
        device: Where the model is.
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
        """The closure, whatever the positions."""
        return self.closure

    def subset(self, positions: Tensor) -> Losses:
        """The same closure."""
        return self

    def to(self, device: torch.device) -> Losses:
        """The same closure."""
        return self


class Told(NamedTuple):
    """A batch that the host has been given and will put through the model."""

    x: Any
    y: Tensor
    positions: Tensor | None
    batch: Batch | None


class Batches:
    """The batches that have been given to the host and not yet gone through the model."""

    def __init__(self) -> None:
        self.waiting: deque[Told] = deque(maxlen=64)

    def tell(
        self, x: Any, y: Tensor, positions: Tensor | None = None, batch: Batch | None = None
    ) -> None:
        """The host will put this through the model next, or soon."""
        self.waiting.append(Told(x, y, positions, batch))

    def take(self, x: Any, names: str) -> Told:
        """What was told of these inputs: the very same ones, else the oldest of their number."""
        n = len(tensors_of(x)[0])
        for position, told in enumerate(self.waiting):
            if told.x is x:
                del self.waiting[position]
                return told
        if not self.waiting:
            raise PluginError(
                f"{names} needs the labels of each batch that is learned from: go through "
                "`cl.loader(your_loader)`, or call `cl.batch(x, y)` before the model's pass"
            )
        told = self.waiting.popleft()
        if len(told.y) != n:
            raise PluginError(
                f"the model was given {n} samples to learn, but the batch that `cl` was told of "
                f"has {len(told.y)} labels: each batch goes through the model once, in order"
            )
        return told


class _Indexed(Dataset[Any]):
    """A data set that gives each item with its position.

    Args:
        dataset: The host's.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __getitem__(self, position: int) -> tuple[int, Any]:
        return position, self.dataset[position]

    def __len__(self) -> int:
        return len(self.dataset)


class _Collate:
    """The host's collate function, with the items' positions beside what it makes.

    Args:
        collate: The host's.
    """

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate = collate

    def __call__(self, items: list[tuple[int, Any]]) -> tuple[Tensor, Any]:
        return torch.tensor([place for place, _ in items]), self.collate([x for _, x in items])


def items_of(loader: Any) -> Iterator[tuple[Tensor | None, Any]]:
    """What a loader gives, each with the positions of its samples where these can be known."""
    plain = not isinstance(loader, DataLoader) or loader.batch_sampler is None
    if plain or isinstance(loader.dataset, IterableDataset):
        for item in loader:
            yield None, item
        return
    with_places = copy.copy(loader)
    # A loader's parts cannot be changed by the front door once it is made.
    vars(with_places).update(
        dataset=_Indexed(loader.dataset), collate_fn=_Collate(loader.collate_fn), _iterator=None
    )
    yield from with_places


def labels_of(item: Any) -> tuple[Any, Tensor]:
    """Inputs and labels in what a loader gives: a pair and more, or a mapping with labels."""
    if isinstance(item, Mapping):
        for name in _LABELS:
            if isinstance(item.get(name), Tensor):
                return None, item[name]
        raise DataError(
            f"a batch with {', '.join(map(str, item))} has no labels: it needs an entry "
            f"{' or '.join(_LABELS)}, or tell them by cl.batch(x, y)"
        )
    if isinstance(item, tuple | list) and len(item) > 1 and isinstance(item[1], Tensor):
        return item[0], item[1]
    raise DataError(
        f"a batch is a pair of inputs and labels or a mapping, got {type(item).__name__}: tell "
        "inputs and labels by cl.batch(x, y)"
    )


def check_main_process() -> None:
    """Refuse to be told something in a process of which the trainer knows nothing."""
    if get_worker_info() is not None:
        raise PluginError(
            "cl.collate runs in a worker process of the loader, which cannot tell the trainer's "
            "own: set num_workers=0, or go through cl.loader"
        )
