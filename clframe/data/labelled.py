"""Labelled samples of any origin: arrays, data sets, files."""

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
        labels: What each is called, or its class's number.
        select: Makes the data of some of them: positions, the output unit and the task of each.
        shape: Of one sample, as the model gets it.
        column: The domain or the time of each; None where nothing of that kind is known.
        what: What to call them in a message.
        keys: Returns what identifies each sample, whatever else is in the data (its path, its
            content): it decides whether the sample is tested on. None counts within each class.
    """

    labels: Sequence[Hashable]
    select: Callable[[Tensor, Tensor, int], Data]
    shape: tuple[int, ...]
    column: Sequence[Any] | None = None
    what: str = "the training data"
    keys: Callable[[], Sequence[str]] | None = None

    def __post_init__(self) -> None:
        if not len(self.labels):
            raise DataError(f"{self.what} holds no sample")
        if self.column is not None and len(self.column) != len(self.labels):
            raise DataError(
                f"{self.what} has {len(self.labels)} samples, but {len(self.column)} values say "
                "which domain or time each is of"
            )


def as_samples(
    given: Any,
    column: Sequence[Any] | None,
    what: str,
    num_workers: int = 0,
    transform: Transform | None = None,
) -> Samples:
    """Samples of a pair of inputs and labels, or of a data set."""
    if isinstance(given, tuple | list) and len(given) == 2:
        return _of_arrays(given[0], given[1], column, what, transform)
    if hasattr(given, "__getitem__") and hasattr(given, "__len__"):
        return _of_dataset(given, column, what, num_workers, transform)
    raise DataError(
        f"{what} must be a pair of inputs and labels or a data set with __len__ and __getitem__, "
        f"got {type(given).__name__}"
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
    known = next((getattr(dataset, n) for n in ("targets", "labels") if hasattr(dataset, n)), None)
    if known is None or len(known) != len(dataset):
        known = [dataset[i][1] for i in range(len(dataset))]
    classes = _labels(known, what)
    if not len(classes):
        raise DataError(f"{what} holds no sample")
    first = dataset[0][0]
    values = first.values() if isinstance(first, dict) else (first,)
    if not all(isinstance(value, Tensor) for value in values):
        raise DataError(
            f"{what} gives inputs of type {type(first).__name__}; they must be tensors (for "
            "images give the data set the transform torchvision.transforms.ToTensor())"
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
    """Return the paths of a data set that lists its files, as torchvision's ImageFolder does."""
    files = getattr(dataset, "samples", None)
    root = getattr(dataset, "root", None)
    if not isinstance(files, Sequence) or len(files) != len(dataset) or not isinstance(root, str):
        return None
    if not all(isinstance(one, tuple) and one and isinstance(one[0], str) for one in files):
        return None
    return lambda: [relative_name(Path(one[0]), Path(root)) for one in files]


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
        raise DataError(f"inputs cannot be made a tensor: {error}") from error


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
