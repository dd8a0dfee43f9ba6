"""Worker processes that read data, kept alive from epoch to epoch and experience to experience.

Starting processes often costs more than an epoch, so those of a data set stay until the run ends.
What is random in reading a sample is seeded in the worker for each batch, by the batch's place in
its epoch: so it does not depend on how many workers there are or on where a run was resumed.
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
"""Data sets whose workers are kept: the one that is learned and the one that is tested."""

_pools: weakref.WeakValueDictionary[tuple[int, int, bool], Pool] = weakref.WeakValueDictionary()
_running: list[Pool] = []


def is_lost_reader(error: BaseException | None) -> bool:
    """Whether an error says that a worker has died, or came up while such an error was handled.

    torch raises it wherever the run happens to be when the system tells of the death, in a step
    or in the middle of saving as well as where the next batch is waited for. A file that is being
    written then may add an error of its own when it is closed.
    """
    while error is not None:
        if isinstance(error, RuntimeError) and str(error).startswith("DataLoader worker (pid"):
            return True
        error = error.__cause__ or error.__context__
    return False


def pool_of(dataset: Any, num_workers: int, pin: bool) -> Pool:
    """The workers of a data set: the same for all that ask for the same."""
    key = (id(dataset), num_workers, pin)
    pool = _pools.get(key)
    if pool is None:  # a pool holds its data set, so the number cannot be another's
        pool = _pools[key] = Pool(dataset, num_workers, pin)
    return pool


def end_all() -> None:
    """End all worker processes; they come back when they are needed."""
    for pool in list(_running):
        pool.end()


def seeds_of(chunks: Sequence[list[int]]) -> list[int]:
    """A seed for each chunk of an epoch, the same for what is left of the epoch.

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
    """The worker processes of one data set.

    Args:
        dataset: Anything with ``__len__`` and ``__getitem__``.
        num_workers: How many; at least 1.
        pin: Give tensors in pinned memory.
    """

    def __init__(self, dataset: Any, num_workers: int, pin: bool) -> None:
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin = pin
        self._work = _Work()
        self._loader: DataLoader[Any] | None = None
        self._busy = False

    def read(self, chunks: Sequence[list[int]]) -> Iterator[Any]:
        """The collated samples at these indices of the data set, chunk after chunk, read ahead."""
        if self._busy:  # someone reads the same data set while it is being read
            yield from self._make(_Work(chunks), keep=False)
            return
        self._busy = True
        try:
            if self._loader is None:
                self._loader = self._make(self._work, keep=True)
            self._remember()
            self._work.chunks = chunks
            yield from self._loader
        except GeneratorExit:  # what was read ahead is thrown away at the next start
            raise
        except BaseException as error:
            self.end()
            if is_lost_reader(error):
                raise DataError(
                    f"one of the {self.num_workers} processes that read data was ended from "
                    "outside (out of memory?); try fewer"
                ) from error
            raise
        finally:
            self._busy = False

    def end(self) -> None:
        """End the processes."""
        iterator = getattr(self._loader, "_iterator", None)
        if iterator is not None:  # not left to its last reference, which may be in a traceback
            iterator._shutdown_workers()
        self._loader = None
        if self in _running:
            _running.remove(self)

    def _remember(self) -> None:
        """Be the newest of those that run, and end the oldest if there are too many."""
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
            # Left out, a seed would be drawn from the run's own generator.
            generator=torch.Generator(),
            worker_init_fn=_leave_quietly,
        )


def _leave_quietly(worker: int) -> None:
    """Let a thread that hands tensors over say nothing when the run has gone in the midst of it.

    Errors of reading do not come this way: they are handed to the run, which tells them.
    """
    sys.excepthook = lambda *error: None


class _Work:
    """Which samples to read: a sampler whose content is put in before each start."""

    def __init__(self, chunks: Sequence[list[int]] = ()) -> None:
        self.chunks = chunks

    def __iter__(self) -> Iterator[list[int]]:
        for seed, chunk in zip(seeds_of(self.chunks), self.chunks, strict=True):
            yield [seed, *chunk]

    def __len__(self) -> int:
        return len(self.chunks)


class _Seeded:
    """A data set that is read chunk by chunk, after a seed; lives in the workers only."""

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
