"""Identity of samples and data: an ID for each sample, and one checksum over all of them.

Streams of a user's own data identify samples by content (:class:`SampleIds`), so that a
sample is recognized in a folder that has changed. All other data has only a checksum.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clframe.data.concat import JoinedData
from clframe.data.dataset import Data, MapData, TensorData
from clframe.data.inputs import tensors_of
from clframe.data.reindexed import OrderedData

Ids = NDArray[np.uint64]
_SAMPLES = 16
"""Inputs in the checksum of data whose samples have no IDs."""


class SampleIds:
    """IDs of the samples of a source, computed from their content on first use.

    Args:
        n: Number of samples.
        read: Returns the content of a sample.

    Example:
        >>> ids = SampleIds(3, lambda number: b"ab"[number % 2 : number % 2 + 1])
        >>> first, second, third = ids(torch.tensor([0, 1, 2])).tolist()
        >>> first == third, first == second
        (True, False)
    """

    def __init__(self, n: int, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._ids = np.zeros(n, np.uint64)
        self._computed = np.zeros(n, np.bool_)

    def __call__(self, indices: Tensor) -> Ids:
        """Return the IDs of the samples at these indices of the source."""
        positions = indices.cpu().numpy()
        for position in np.unique(positions[~self._computed[positions]]).tolist():
            digest = hashlib.blake2b(self._read(position), digest_size=8).digest()
            self._ids[position] = int.from_bytes(digest, "little")
            self._computed[position] = True
        ids: Ids = self._ids[positions]
        return ids


def ids_of_rows(x: Any) -> SampleIds:
    """Return IDs for the rows of tensors, one or several by name, by their content."""
    rows = [_rows(t) for t in tensors_of(x)]
    return SampleIds(len(rows[0]), functools.partial(_row_at, rows))


def ids_of(data: Data) -> Ids | None:
    """Return the IDs of all samples in order, or None if they have none."""
    if isinstance(data, JoinedData):
        part_ids = [ids_of(dataset) for dataset in data.parts]
        existing = [dataset for dataset in part_ids if dataset is not None]
        return np.concatenate(existing) if len(existing) == len(part_ids) else None
    if isinstance(data, OrderedData):
        inner = ids_of(data.inner)
        return None if inner is None else inner[data.order.numpy()]
    if isinstance(data, TensorData | MapData):
        source = data.source if isinstance(data, TensorData) else data.dataset
        ids = getattr(source, "ids", None)
        return ids(data.indices) if isinstance(ids, SampleIds) else None
    return None


def fingerprint(data: Data) -> str:
    """Return a checksum over labels, tasks and samples.

    Samples without IDs are represented by some of the inputs, if these are in memory and the
    same each time.
    """
    contents: list[Any] = [len(data), _bytes(data.labels), _bytes(data.tasks)]
    ids = ids_of(data)
    if ids is not None:
        contents.append(ids.tobytes())
    elif data.repeatable and len(data):
        positions = torch.linspace(0, len(data) - 1, min(_SAMPLES, len(data))).long()
        inputs = data.gather(positions.to(data.labels.device))
        named = inputs if isinstance(inputs, dict) else {"": inputs}
        contents += [content for name, value in named.items() for content in (name, _bytes(value))]
    return short_sum(*contents)


def short_sum(*values: Any) -> str:
    """Return a checksum of bytes and of values that JSON can hold."""
    total = hashlib.sha256()
    for value in values:
        total.update(value if isinstance(value, bytes) else json.dumps(value).encode())
    return total.hexdigest()[:16]


def _row_at(rows: Sequence[NDArray[np.uint8]], index: int) -> bytes:
    return b"".join(array[index].tobytes() for array in rows)


def _rows(t: Tensor) -> NDArray[np.uint8]:
    flat = t.detach().cpu().contiguous()
    return flat.view(len(flat), -1).view(torch.uint8).numpy()


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
