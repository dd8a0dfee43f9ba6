"""Worker processes that stay: no restart between epochs, no leak, no dependence on who reads."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import clframe
from clframe import DataError, MapData
from clframe.core.stream import Experience, Stream, Task
from clframe.data import loader
from clframe.data.concat import JoinedData, join
from clframe.data.dataset import Data, TensorData, keep_inputs
from clframe.testing import killed_run, toy_run


@pytest.fixture(autouse=True)
def _end() -> Iterator[None]:
    yield
    loader.end_all()
    assert not living()


def living() -> list[Any]:
    """Our worker processes, once those that are ending have ended."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        alive = [child for child in multiprocessing.active_children() if child.is_alive()]
        if not alive or loader._running:
            return alive
        time.sleep(0.01)
    return alive


class Who:
    """Tells which process read a sample, and what its generators gave."""

    def __init__(self, n: int = 12) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index == self.n - 1 and self.n == 13:
            raise OSError("file 12 is gone")
        drawn = [float(torch.rand(())), float(np.random.rand())]
        return torch.tensor([os.getpid(), index, *drawn], dtype=torch.float64), 0


def data_of(n: int = 12, count: int = 1) -> MapData:
    return MapData(Who(n), torch.zeros(n, dtype=torch.long), num_workers=count)


def rows(data: Data, order: Tensor, size: int = 4) -> Tensor:
    return torch.cat([batch.x for batch in data.batches(order, size)])


def test_the_same_process_reads_epoch_after_epoch_and_every_subset() -> None:
    data = data_of()
    first = rows(data, torch.randperm(12))
    again = rows(data.subset(torch.tensor([3, 5, 7])), torch.arange(3))
    other = rows(MapData(data.dataset, data.labels[:2], num_workers=1), torch.arange(2))
    assert again[:, 1].tolist() == [3, 5, 7]
    assert len({int(pid) for pid in torch.cat([first, again, other])[:, 0]}) == 1
    assert int(first[0, 0]) != os.getpid()


def test_an_order_that_was_left_in_the_middle_does_not_come_back() -> None:
    data = data_of()
    begun = data.batches(torch.arange(12), 2)
    next(begun)
    begun.close()
    assert rows(data, torch.tensor([9, 8]))[:, 1].tolist() == [9, 8]


def test_data_can_be_read_while_it_is_read() -> None:
    data = data_of()
    first_and_last = []
    for batch in data.batches(torch.arange(12), 4):
        first_and_last.append((batch.x[0, 1].item(), rows(data, torch.tensor([11]))[0, 1].item()))
    assert first_and_last == [(0, 11), (4, 11), (8, 11)]


def test_what_is_random_depends_on_the_place_in_the_order_alone() -> None:
    """Not on the number of workers, nor on where an epoch was resumed."""
    order = torch.randperm(12)
    one, two = rows(data_of(), order), rows(data_of(count=2), order)
    assert torch.equal(one[:, 1:], two[:, 1:])
    rest = rows(data_of(), order[4:])
    assert torch.equal(rest[:, 1:], one[4:, 1:])
    assert len(one[:, 2].unique()) == len(one[:, 3].unique()) == 12
    assert not torch.equal(rows(data_of(), order.flip(0)).sort(0)[0][:, 2], one.sort(0)[0][:, 2])


def test_reading_leaves_the_generator_of_the_run_alone() -> None:
    before = torch.get_rng_state()
    rows(data_of(), torch.arange(12))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_sample_that_cannot_be_read_is_an_error_and_leaves_no_process() -> None:
    with pytest.raises(DataError, match="data cannot be read: OSError: file 12 is gone"):
        rows(data_of(13), torch.arange(13))
    assert not living()


class Suicide(Who):
    """Ends its process, as a system without memory would."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def test_a_process_that_is_killed_is_an_error_in_one_sentence() -> None:
    data = MapData(Suicide(), torch.zeros(12), num_workers=1)
    with pytest.raises(DataError, match="one of the 1 processes that read data was killed"):
        rows(data, torch.arange(12))
    assert not living()


class AtOnce(Who):
    """Reads several samples in one go."""

    def __getitems__(self, indices: list[int]) -> list[tuple[Tensor, int]]:
        return [(torch.tensor([0.0, index, len(indices)]), 0) for index in indices]


def test_a_data_set_may_read_a_batch_at_once() -> None:
    read = rows(MapData(AtOnce(), torch.zeros(12), num_workers=1), torch.tensor([3, 1]))
    assert read[:, 1:].tolist() == [[3, 2], [1, 2]]


def test_only_the_newest_data_sets_keep_their_workers() -> None:
    several = [data_of() for _ in range(4)]
    for data in several:
        rows(data, torch.arange(12))
    assert len(loader._running) == 2
    assert rows(several[0], torch.arange(12))[:, 1].tolist() == list(range(12))


def test_joined_data_is_read_by_workers_too() -> None:
    here = TensorData(torch.zeros(3, 4).double(), torch.ones(3).long(), transform=keep_inputs)
    joined = join([data_of(), here, data_of()])
    assert isinstance(joined, JoinedData)
    order = torch.tensor([26, 0, 13, 12, 11, 15])
    samples = rows(joined, order, 3)
    assert samples[:, 1].tolist() == [11, 0, 0, 0, 11, 0]
    read = samples[[0, 1, 4, 5], 0]
    assert os.getpid() not in read.tolist()
    assert len(read.unique()) == 2
    assert samples[[2, 3], 0].tolist() == [0, 0]


def test_one_data_set_in_parts_is_joined_as_one() -> None:
    data = data_of()
    whole = join([data.subset(torch.tensor([4, 5])), data.subset(torch.tensor([1]))])
    assert isinstance(whole, MapData)
    assert whole.num_workers == 1
    assert rows(whole, torch.arange(3))[:, 1].tolist() == [4, 5, 1]


def test_a_run_ends_its_workers() -> None:
    class Started(Who):
        def __getitem__(self, index: int) -> tuple[Tensor, int]:
            return torch.full((4,), float(index % 2)), index % 2

    data = MapData(Started(20), torch.arange(20) % 2, num_workers=1)
    task = Task(0, "all", (0, 1), lambda: data)
    learned = [Experience(i, f"e{i}", (task,), lambda: data) for i in range(2)]
    stream = Stream("read", "domain", learned, [task], (4,), 2)
    counts: list[int] = []

    class Count(clframe.Plugin):
        @clframe.hookimpl
        def after_epoch(self) -> None:
            counts.append(len(multiprocessing.active_children()))

    result = clframe.fit(stream, Count(), max_epochs=2, run_dir=False, progress=False)
    assert counts == [1, 1, 1, 1]
    assert not living()
    assert result.matrix.values.shape == (3, 1)


class Noisy(Who):
    """Samples with noise that is drawn when they are read."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.randn(4) + 2 * (index % 2), index % 2


def test_a_run_that_is_killed_continues_with_the_same_samples() -> None:
    """Within an epoch, though each process starts workers of its own."""

    def stream() -> Stream:
        data = MapData(Noisy(60), torch.arange(60) % 2, num_workers=1)
        task = Task(0, "all", (0, 1), lambda: data)
        learned = [Experience(i, f"e{i}", (task,), lambda: data) for i in range(2)]
        return Stream("noisy", "domain", learned, [task], (4,), 2)

    whole, learner = toy_run([], stream(), batch_size=8)
    again, other = killed_run([], stream(), every=3, after=7, batch_size=8)
    assert (whole.matrix.values == again.matrix.values).all()
    for key, value in learner.state_dict().items():
        assert torch.equal(value, other.state_dict()[key])


def test_a_lost_reader_is_known_by_what_followed_it() -> None:
    lost = RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. ")
    followed = RuntimeError("unexpected pos 7232 vs 7152")  # of a file that could not be finished
    assert not loader.is_lost_reader(followed)
    followed.__context__ = lost
    assert loader.is_lost_reader(followed)
    assert loader.is_lost_reader(lost)
