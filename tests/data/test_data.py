from __future__ import annotations

import pytest
import torch

from clframe import DataError, MapData, TensorData
from clframe.core.trainer import Budget
from clframe.data.concat import JoinedData, join
from clframe.data.dataset import Data, keep_inputs
from clframe.data.sampler import epoch_order
from clframe.training.loop import samples_of_epoch


def tensors(n: int = 10, task: int = 0) -> TensorData:
    x = torch.arange(n * 3, dtype=torch.uint8).view(n, 3)
    return TensorData(x, torch.arange(n), task)


class Pairs:
    """A map-style data set with the same content as `tensors`."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.arange(3 * index, 3 * index + 3, dtype=torch.uint8), index


def collect(data: Data, order: torch.Tensor, size: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(batch.x, batch.y) for batch in data.batches(order, size)]


@pytest.mark.parametrize("workers", [0, 1])
def test_tensor_and_map_data_give_equal_batches(workers: int) -> None:
    order = torch.randperm(10)
    mapped = MapData(Pairs(), torch.arange(10), num_workers=workers)
    mapped.transform = tensors().transform
    for (x, y), (u, v) in zip(collect(tensors(), order, 4), collect(mapped, order, 4), strict=True):
        assert torch.equal(x, u)
        assert torch.equal(y, v)


def test_inputs_may_be_several_tensors() -> None:
    x = {"rgb": torch.zeros(4, 3), "depth": torch.arange(4.0)}
    data = TensorData(x, torch.arange(4), transform=keep_inputs)
    batch = next(iter(data.batches(torch.tensor([2, 1]), 2)))
    assert batch.x["depth"].tolist() == [2.0, 1.0]


def test_samples_of_one_source_are_joined_without_copying() -> None:
    whole = tensors()
    first, second = whole.subset(torch.tensor([0, 1])), whole.subset(torch.tensor([7]))
    joined = join([first, second])
    assert isinstance(joined, TensorData)
    assert joined.source is whole.source
    assert joined.labels.tolist() == [0, 1, 7]


def test_samples_of_several_sources_are_joined_in_order() -> None:
    joined = join([tensors(3), tensors(4, task=1)])
    assert isinstance(joined, JoinedData)
    order = torch.tensor([6, 0, 3])
    batch = next(iter(joined.batches(order, 3)))
    assert batch.y.tolist() == [3, 0, 0]
    assert batch.task.tolist() == [1, 0, 1]
    assert (batch.x * 255).round()[:, 0].tolist() == [9, 0, 0]
    assert joined.subset(torch.tensor([4, 1])).labels.tolist() == [1, 1]


def test_data_needs_a_label_for_each_sample() -> None:
    with pytest.raises(DataError, match="one label and one task per sample"):
        TensorData(torch.zeros(3, 1), torch.arange(3), torch.arange(2))


def test_order_depends_on_seed_experience_and_epoch_only() -> None:
    order = epoch_order(50, 0, 1, 2)
    torch.randn(10)
    assert torch.equal(order, epoch_order(50, 0, 1, 2))
    assert sorted(order.tolist()) == list(range(50))
    assert len({tuple(epoch_order(50, *key).tolist()) for key in ((0, 1), (1, 0), (0, 0))}) == 3


@pytest.mark.parametrize(
    ("budget", "left", "expected"),
    [
        (Budget(batch_size=4), None, 10),
        (Budget(batch_size=4, drop_last=True), None, 8),
        (Budget(batch_size=4), 1, 4),
        (Budget(batch_size=4, batches_per_epoch=2), None, 8),
        (Budget(batch_size=16, drop_last=True), None, 10),
    ],
)
def test_samples_of_an_epoch(budget: Budget, left: int | None, expected: int) -> None:
    assert samples_of_epoch(10, budget, left) == expected


def test_joined_data_of_joined_data_is_in_one_level() -> None:
    parts = [TensorData(torch.arange(3.0) + 10 * i, torch.full((3,), i), i) for i in range(3)]
    for part in parts:
        part.transform = keep_inputs
    joined = JoinedData([parts[2], JoinedData(parts[:2])])
    assert len(joined.parts) == 3
    order = torch.tensor([8, 0, 4, 2, 6, 3])
    batches = list(joined.batches(order, 4))
    assert torch.cat([b.x for b in batches]).tolist() == [12.0, 20.0, 1.0, 22.0, 10.0, 0.0]
    assert torch.cat([b.y for b in batches]).tolist() == [1, 2, 0, 2, 1, 0]
    assert joined.subset(order).labels.tolist() == [2, 2, 0, 0, 1, 1]
