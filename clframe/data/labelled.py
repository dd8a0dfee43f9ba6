"""Labelled samples of any origin: arrays, datasets, files."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clframe.data.dataset import Data, MapData, TensorData, Transform, keep_inputs, scale_images
from clframe.data.identify import ids_of_rows
from clframe.data.inputs import tensors_of
from clframe.data.storage import TensorSource
from clframe.errors import DataError


@dataclass(frozen=True)
class Samples:
    """Labelled samples, wherever they are stored.

    Args:
        labels: The name or number of each sample's class.
        select: Makes the data of some of them: positions, the output unit and the task of each.
        shape: Shape of one sample, as the model gets it.
        column: The domain or the time of each sample; None if unknown.
        what: Name of the data in messages.
        keys: Returns the identity of each sample, independent of other data (its path, its
            content), which decides whether it is a test sample. None counts within each class.
    """

    labels: Sequence[Hashable]
    select: Callable[[Tensor, Tensor, int], Data]
    shape: tuple[int, ...]
    column: Sequence[Any] | None = None
    what: str = "the training data"
    keys: Callable[[], Sequence[str]] | None = None

    def __post_init__(self) -> None:
        if not len(self.labels):
            raise DataError(f"{self.what} has no samples")
        if self.column is not None and len(self.column) != len(self.labels):
            raise DataError(
                f"{self.what} has {len(self.labels)} samples, but {len(self.column)} values of "
                "a domain or time"
            )


def as_samples(
    source: Any,
    column: Sequence[Any] | None,
    what: str,
    num_workers: int = 0,
    transform: Transform | None = None,
) -> Samples:
    """Return samples of a pair of inputs and labels, or of a dataset."""
    if isinstance(source, tuple | list) and len(source) == 2:
        return _of_arrays(source[0], source[1], column, what, transform)
    if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        return _of_dataset(source, column, what, num_workers, transform)
    raise DataError(
        f"{what} must be a pair of inputs and labels or a dataset with __len__ and __getitem__, "
        f"got {type(source).__name__}"
    )


def _of_arrays(
    inputs: Any, labels: Any, column: Sequence[Any] | None, what: str, transform: Transform | None
) -> Samples:
    x = {k: _tensor(v) for k, v in inputs.items()} if isinstance(inputs, dict) else _tensor(inputs)
    classes = _labels(labels, what)
    first = tensors_of(x)[0]
    if len(first) != len(classes):
        raise DataError(f"{what} has {len(first)} inputs and {len(classes)} labels")
    change = transform or (scale_images if first.dtype == torch.uint8 else keep_inputs)
    shape = tuple(
        tensors_of(change(_rows(x, slice(0, 1)), torch.zeros(1, dtype=torch.long)))[0][0].shape
    )
    ids = ids_of_rows(x)
    source = TensorSource(x, ids=ids)
    return Samples(
        classes,
        lambda positions, units, task: TensorData(source, units, task, positions, change),
        shape,
        column,
        what,
        lambda: [f"{number:x}" for number in ids(torch.arange(len(classes))).tolist()],
    )


def _of_dataset(
    dataset: Any,
    column: Sequence[Any] | None,
    what: str,
    num_workers: int,
    transform: Transform | None,
) -> Samples:
    labels = next((getattr(dataset, n) for n in ("targets", "labels") if hasattr(dataset, n)), None)
    if labels is None or len(labels) != len(dataset):
        labels = [dataset[i][1] for i in range(len(dataset))]
    classes = _labels(labels, what)
    if not len(classes):
        raise DataError(f"{what} has no samples")
    first = dataset[0][0]
    values = first.values() if isinstance(first, dict) else (first,)
    if not all(isinstance(value, Tensor) for value in values):
        raise DataError(
            f"{what} has inputs of type {type(first).__name__}, but they must be tensors (for "
            "images, give the dataset the transform torchvision.transforms.ToTensor())"
        )
    change = transform or (
        scale_images if tensors_of(first)[0].dtype == torch.uint8 else keep_inputs
    )
    return Samples(
        classes,
        lambda positions, units, task: MapData(
            dataset, units, task, positions, change, num_workers
        ),
        tuple(tensors_of(first)[0].shape),
        column,
        what,
        _keys_of(dataset),
    )


def _keys_of(dataset: Any) -> Callable[[], Sequence[str]] | None:
    """Return the paths of a dataset that lists its files, as torchvision's ImageFolder does."""
    files = getattr(dataset, "samples", None)
    root = getattr(dataset, "root", None)
    if not isinstance(files, Sequence) or len(files) != len(dataset) or not isinstance(root, str):
        return None
    if not all(isinstance(entry, tuple) and entry and isinstance(entry[0], str) for entry in files):
        return None
    return lambda: [relative_name(Path(entry[0]), Path(root)) for entry in files]


def relative_name(path: Path, root: Path) -> str:
    """Return the path of a file below a folder, with / on every system.

    >>> relative_name(Path("photos/cat/1.png"), Path("photos"))
    'cat/1.png'
    """
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def _tensor(values: Any) -> Tensor:
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError) as error:
        raise DataError(f"cannot convert inputs to a tensor: {error}") from error


def _rows(x: Any, rows: slice) -> Any:
    return {k: v[rows] for k, v in x.items()} if isinstance(x, dict) else x[rows]


def _labels(labels: Any, what: str) -> list[Hashable]:
    values = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    for position, value in enumerate(values):
        if isinstance(value, Tensor) and value.numel() == 1:
            values[position] = value.item()
        elif not isinstance(value, str | int):
            raise DataError(
                f"{what}: label {position} is {value!r}; a label is a whole number or a name"
            )
    return values
