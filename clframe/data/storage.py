"""Storage of samples: on the training device, or on the host if they do not fit there.

A source that fits is copied to the device once, and batches are gathered there. A source that does
not fit stays in main memory or in a mapped file. Each batch is then gathered on the host and sent
to the device, through pinned memory and without waiting if it is a CUDA device. Larger data, one
file for each sample, is read by worker processes (:mod:`clframe.data.loader`). The samples of a
batch are bit-identical in all three cases.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clframe.data.inputs import map_inputs, tensors_of
from clframe.errors import DataError, SettingError

_SHARE = 0.5
"""Default share of a device's free memory for data; the rest is for models, gradients
and plugins."""
_UNITS = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}

_limits: dict[torch.device, int] = {}
_placed: dict[torch.device, weakref.WeakSet[TensorSource]] = {}


def bytes_of(size: int | str | None, what: str) -> int | None:
    """Return a number of bytes from a number or a text with a unit.

    >>> bytes_of("1.5 GB", "trainer.device_memory")
    1610612736
    """
    if size is None:
        return None
    text = str(size).strip().upper().replace("I", "")
    number = text.rstrip("KMGTB").strip()
    try:
        n_bytes = int(float(number) * _UNITS[text[len(number) :].strip()])
    except (ValueError, KeyError, OverflowError):
        n_bytes = -1
    if n_bytes < 0:
        raise SettingError(f"{what} must be a size such as 500MB or 8GB, at least 0, got {size!r}")
    return n_bytes


def set_budget(device: torch.device, limit: int | None) -> None:
    """Limit the bytes of data on a device from now on, and evict its copies.

    Args:
        device: The device.
        limit: Bytes; None for half of the memory that is free when data is first copied to it. (On
            a CPU, mapped files then stay in the system's file cache.)
    """
    _limits.pop(device, None)
    if limit is not None:
        _limits[device] = limit
    for source in _placed.pop(device, ()):
        source.evict(device)


def free_bytes(device: torch.device) -> float:
    """Return how many bytes of data a device can still take."""
    if device not in _limits:
        if device.type == "cuda":
            _limits[device] = int(_SHARE * torch.cuda.mem_get_info(device)[0])
        else:
            return 0.0 if device.type == "cpu" else float("inf")
    return _limits[device] - sum(source.nbytes for source in _placed.get(device, ()))


def map_files(paths: str | Path | Mapping[str, str | Path]) -> TensorSource:
    """Return a source of memory-mapped ``.npy`` files, read from disk as they are used.

    Args:
        paths: One file, or files by name; the first dimension of each is the samples.

    Raises:
        DataError: A file cannot be read or has another format.
    """
    tensors = {}
    for name, path in (paths if isinstance(paths, Mapping) else {"": paths}).items():
        try:
            # Private and writable, as torch requires; nothing is ever written to it.
            tensors[name] = torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))
        except (OSError, ValueError, EOFError, TypeError) as error:
            raise DataError(f"cannot map data file '{path}': {error}") from error
    return TensorSource(tensors[""] if list(tensors) == [""] else tensors, mapped=True)


class TensorSource:
    """Tensors in memory or in mapped files, with a copy on each device with enough space.

    Args:
        x: The tensors, one or several by name; the first dimension is the samples.
        mapped: Whether they are mapped files.
        ids: IDs of the samples by content (:class:`clframe.data.identify.SampleIds`).
    """

    def __init__(self, x: Any, mapped: bool = False, ids: Any = None) -> None:
        self._stored = x
        self._copies: dict[torch.device, Any] = {}
        self.mapped = mapped
        self.ids = ids
        self.home: torch.device = tensors_of(x)[0].device
        self.nbytes = sum(t.numel() * t.element_size() for t in tensors_of(x))

    def to(self, device: torch.device) -> Any:
        """Return the tensors on this device if they fit, else where they are stored."""
        if device in self._copies:
            return self._copies[device]
        if (device == self.home and not self.mapped) or self.nbytes > free_bytes(device):
            return self._stored
        try:
            copies = map_inputs(lambda t: t.to(device, copy=True), self._stored)
        except torch.OutOfMemoryError:  # other processes use the device as well
            return self._stored
        self._copies[device] = copies
        _placed.setdefault(device, weakref.WeakSet()).add(self)
        return copies

    def evict(self, device: torch.device) -> None:
        """Drop the copy on a device."""
        self._copies.pop(device, None)


def send(t: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device; copy to CUDA through pinned memory, without waiting."""
    if device.type == "cuda" and t.device.type == "cpu":
        return t.pin_memory().to(device, non_blocking=True)
    return t.to(device)


def fetch(x: Any, indices: Tensor, device: torch.device) -> Any:
    """Return the samples at these indices on a device, wherever the tensors are.

    Args:
        x: The tensors.
        indices: Indices on the tensors' device.
        device: Device of the result.
    """

    def bring(t: Tensor) -> Tensor:
        if t.device == device:
            return t.index_select(0, indices)
        if device.type != "cuda" or t.device.type != "cpu":
            return t.index_select(0, indices).to(device)
        # Gathered into pinned memory, which can be sent without waiting. torch does not reuse the
        # block before the copy out of it is done.
        pinned = torch.empty((len(indices), *t.shape[1:]), dtype=t.dtype, pin_memory=True)
        return torch.index_select(t, 0, indices, out=pinned).to(device, non_blocking=True)

    return map_inputs(bring, x)
