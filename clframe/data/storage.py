"""Where samples are stored: on the training device, or on the host if they do not fit there.

A source that fits is copied to the device once, and batches are gathered there. One that does not
fit stays where it is, in main memory or in a mapped file, and each batch is gathered on the host
and sent over, through pinned memory and without waiting where the device is a CUDA one. Data beyond
that, one file for each sample, is read by worker processes (:mod:`clframe.data.loader`). The
samples of a batch are the same bits on all three ways.
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
"""Of a device's free memory that data takes at most by default; the rest is for models, gradients
and what plugins keep."""
_UNITS = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}

_limits: dict[torch.device, int] = {}
_placed: dict[torch.device, weakref.WeakSet[TensorSource]] = {}


def bytes_of(size: int | str | None, what: str) -> int | None:
    """A number of bytes, written as one or with a unit.

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
        raise SettingError(f"{what} must be a size such as 500MB or 8GB from 0 up, got {size!r}")
    return n_bytes


def set_budget(device: torch.device, limit: int | None) -> None:
    """Limit the bytes of data on a device from now on; the copies on it are evicted.

    Args:
        device: The device.
        limit: Bytes; None for half of what is free when data is first copied to it. (Mapped files
            are then left to the system's file cache where the device is the host.)
    """
    _limits.pop(device, None)
    if limit is not None:
        _limits[device] = limit
    for source in _placed.pop(device, ()):
        source.evict(device)


def free_bytes(device: torch.device) -> float:
    """Bytes of data that a device can still take."""
    if device not in _limits:
        if device.type == "cuda":
            _limits[device] = int(_SHARE * torch.cuda.mem_get_info(device)[0])
        else:
            return 0.0 if device.type == "cpu" else float("inf")
    return _limits[device] - sum(source.nbytes for source in _placed.get(device, ()))


def map_files(paths: str | Path | Mapping[str, str | Path]) -> TensorSource:
    """A source of ``.npy`` files that are mapped: read from disk as they are used.

    Args:
        paths: One file, or files by name; the first dimension of each is the samples.

    Raises:
        DataError: A file cannot be read or is something else.
    """
    tensors = {}
    for name, path in (paths if isinstance(paths, Mapping) else {"": paths}).items():
        try:
            # Private and writable, which torch asks for; nothing is ever written to it.
            tensors[name] = torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))
        except (OSError, ValueError, EOFError, TypeError) as error:
            raise DataError(f"data file '{path}' cannot be mapped: {error}") from error
    return TensorSource(tensors[""] if list(tensors) == [""] else tensors, mapped=True)


class TensorSource:
    """Tensors in memory or in mapped files, with a copy on each device that has space for them.

    Args:
        x: The tensors, one or several by name; the first dimension is the samples.
        mapped: They are mapped files.
        ids: What numbers the samples by content (:class:`clframe.data.identify.SampleIds`).
    """

    def __init__(self, x: Any, mapped: bool = False, ids: Any = None) -> None:
        self._stored = x
        self._copies: dict[torch.device, Any] = {}
        self.mapped = mapped
        self.ids = ids
        self.home: torch.device = tensors_of(x)[0].device
        self.nbytes = sum(t.numel() * t.element_size() for t in tensors_of(x))

    def to(self, device: torch.device) -> Any:
        """The tensors on this device if they fit, else where they are stored."""
        if device in self._copies:
            return self._copies[device]
        if (device == self.home and not self.mapped) or self.nbytes > free_bytes(device):
            return self._stored
        try:
            copies = map_inputs(lambda t: t.to(device, copy=True), self._stored)
        except torch.OutOfMemoryError:  # others use the device as well
            return self._stored
        self._copies[device] = copies
        _placed.setdefault(device, weakref.WeakSet()).add(self)
        return copies

    def evict(self, device: torch.device) -> None:
        """Drop the copy on a device."""
        self._copies.pop(device, None)


def send(t: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device; to a CUDA device through pinned memory, without waiting for it."""
    if device.type == "cuda" and t.device.type == "cpu":
        return t.pin_memory().to(device, non_blocking=True)
    return t.to(device)


def fetch(x: Any, indices: Tensor, device: torch.device) -> Any:
    """The samples at these indices, on a device, wherever the tensors are.

    Args:
        x: The tensors.
        indices: Where the tensors are.
        device: Where the samples are wanted.
    """

    def bring(t: Tensor) -> Tensor:
        if t.device == device:
            return t.index_select(0, indices)
        if device.type != "cuda" or t.device.type != "cpu":
            return t.index_select(0, indices).to(device)
        # Gathered into pinned memory, which can be sent without waiting; torch gives such a block
        # to nobody else before the copy out of it is done.
        pinned = torch.empty((len(indices), *t.shape[1:]), dtype=t.dtype, pin_memory=True)
        return torch.index_select(t, 0, indices, out=pinned).to(device, non_blocking=True)

    return map_inputs(bring, x)
