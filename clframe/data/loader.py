"""Worker processes that read data, kept alive across epochs and experiences.

Starting processes often costs more than an epoch, so those of a dataset stay until the run ends.
Random operations of reading are seeded in the worker for each batch, by the batch's index in its
epoch. They therefore do not depend on the number of workers or on where a run was resumed.
"""

from __future__ import annotations

import random
import sys
import weakref
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from clframe.errors import DataError

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

_KEPT = 2
"""Number of datasets whose workers are kept: one for training and one for testing."""

_pools: weakref.WeakValueDictionary[tuple[int, int, bool], Pool] = weakref.WeakValueDictionary()
_running: list[Pool] = []


def is_lost_reader(error: BaseException | None) -> bool:
    """Return whether an error reports a dead worker, or was raised while handling such an error.

    torch raises it wherever the run is when the system reports the death: in a step or while
    saving, not only while waiting for a batch. A file that is being written then may add an error
    of its own when it is closed.
    """
    while error is not None:
        if isinstance(error, RuntimeError) and str(error).startswith("DataLoader worker (pid"):
            return True
        error = error.__cause__ or error.__context__
    return False


def pool_of(dataset: Any, num_workers: int, pin: bool) -> Pool:
    """Return the workers of a dataset; equal arguments give the same pool."""
    key = (id(dataset), num_workers, pin)
    pool = _pools.get(key)
    if pool is None:  # a pool holds its dataset, so no other object can have this id
        pool = _pools[key] = Pool(dataset, num_workers, pin)
    return pool


def end_all() -> None:
    """End all worker processes; they restart when they are needed."""
    for pool in list(_running):
        pool.end()


def seeds_of(chunks: Sequence[list[int]]) -> list[int]:
    """Return a seed for each chunk of an epoch, the same for the rest of an epoch.

    >>> epoch = [[4, 2], [1, 5], [3, 0]]
    >>> seeds_of(epoch[1:]) == seeds_of(epoch)[1:]
    True
    """
    last = chunks[-1][-1] if chunks else 0
    return [
        zlib.crc32(np.array([last, len(chunks) - number, *chunk]).tobytes())
        for number, chunk in enumerate(chunks)
    ]


class Pool:
    """Worker processes of one dataset.

    Args:
        dataset: Any object with ``__len__`` and ``__getitem__``.
        num_workers: Number of processes, at least 1.
        pin: Whether to return tensors in pinned memory.
    """

    def __init__(self, dataset: Any, num_workers: int, pin: bool) -> None:
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin = pin
        self._work = _Work()
        self._loader: DataLoader[Any] | None = None
        self._busy = False

    def read(self, chunks: Sequence[list[int]]) -> Iterator[Any]:
        """Yield the collated samples at these indices, chunk by chunk, read ahead."""
        if self._busy:  # nested read of the same dataset
            yield from self._make(_Work(chunks), keep=False)
            return
        self._busy = True
        try:
            if self._loader is None:
                self._loader = self._make(self._work, keep=True)
            self._remember()
            self._work.chunks = chunks
            yield from self._loader
        except GeneratorExit:  # the next start drops the samples that were read ahead
            raise
        except BaseException as error:
            self.end()
            if is_lost_reader(error):
                raise DataError(
                    f"one of the {self.num_workers} processes that read data was killed "
                    "(out of memory?): try fewer workers"
                ) from error
            raise
        finally:
            self._busy = False

    def end(self) -> None:
        """End the processes."""
        iterator = getattr(self._loader, "_iterator", None)
        if iterator is not None:  # the last reference to it may be in a traceback
            iterator._shutdown_workers()
        self._loader = None
        if self in _running:
            _running.remove(self)

    def _remember(self) -> None:
        """Make this the newest running pool, and end the oldest if there are too many."""
        if self in _running:
            _running.remove(self)
        _running.append(self)
        for pool in [pool for pool in _running[:-_KEPT] if not pool._busy]:
            pool.end()

    def _make(self, work: _Work, keep: bool) -> DataLoader[Any]:
        from torch.utils.data import DataLoader

        return DataLoader(
            _Seeded(self.dataset),  # type: ignore[arg-type]
            batch_sampler=work,
            num_workers=self.num_workers,
            persistent_workers=keep,
            pin_memory=self.pin,
            # Without it, a seed would be drawn from the run's own generator.
            generator=torch.Generator(),
            worker_init_fn=_leave_quietly,
        )


def _leave_quietly(worker: int) -> None:
    """Silence a thread that transfers tensors when the run ends during a transfer.

    Errors of reading do not take this path: the run receives and reports them.
    """
    sys.excepthook = lambda *error: None


class _Work:
    """A sampler whose indices are set before each start."""

    def __init__(self, chunks: Sequence[list[int]] = ()) -> None:
        self.chunks = chunks

    def __iter__(self) -> Iterator[list[int]]:
        for seed, chunk in zip(seeds_of(self.chunks), self.chunks, strict=True):
            yield [seed, *chunk]

    def __len__(self) -> int:
        return len(self.chunks)


class _Seeded:
    """A dataset that is read chunk by chunk after seeding; exists only in the workers."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, work: list[int]) -> list[Any]:
        seed, *indices = work
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        several = getattr(self.dataset, "__getitems__", None)
        return list(several(indices)) if several else [self.dataset[i] for i in indices]
