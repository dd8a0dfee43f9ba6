from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clframe.data.buffer import Buffer, lowest_of_groups
from clframe.data.class_buffer import add_herded, class_of, count_classes, make_buffer
from clframe.data.dataset import MapData, TensorData, keep_inputs
from clframe.data.herding import herding_order
from clframe.errors import DataError, PluginError, SettingError
from clframe.testing import toy_run, toy_stream

# Upper 0.1 % points of the chi-square distribution.
CHI2_999 = {19: 43.82, 29: 58.30}


def numbered(start: int, n: int, label: int = 0, task: int = 0) -> TensorData:
    """Samples that are their own number."""
    x = torch.arange(start, start + n).view(-1, 1)
    return TensorData(x, torch.full((n,), label), task, transform=keep_inputs)


def stored(buffer: Buffer) -> list[int]:
    return sorted(buffer.inputs[: len(buffer)].flatten().tolist())


@pytest.mark.parametrize("by_step", [False, True])
def test_a_reservoir_is_uniform_over_everything_seen(by_step: bool) -> None:
    runs, seen, size = 3000, 30, 7
    generator = torch.Generator().manual_seed(1)
    counts = np.zeros(seen)
    for _ in range(runs):
        buffer = Buffer(size)
        for start, n in ((0, 11), (11, 4), (15, 15)):
            data = numbered(start, n)
            if by_step:
                buffer.add_batch(data.gather(torch.arange(n)), data.labels, data.tasks, generator)
            else:
                buffer.add(data, generator)
        kept = stored(buffer)
        assert len(set(kept)) == size
        counts[kept] += 1
    expected = runs * size / seen
    # Samples of one run are drawn without replacement, which shrinks the variance by this factor.
    chi2 = ((counts - expected) ** 2 / expected).sum() / (1 - size / seen) * (seen - 1) / seen
    assert chi2 < CHI2_999[29]


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("size", [9, 21, 40, 2**63 - 1])
def test_a_memory_that_grows_is_the_one_that_is_taken_at_once(
    size: int, grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def filled(rows: int) -> Buffer:
        monkeypatch.setattr("clframe.data.buffer._ROWS_AT_ONCE", rows)
        buffer = Buffer(size, "class_balanced" if grouped else "reservoir")
        generator = torch.Generator().manual_seed(2)
        for start, n in ((0, 4), (4, 9), (13, 1), (14, 30), (44, 20)):
            data = numbered(start, n, label=start)
            buffer.add(data, generator, data.labels if grouped else None)
        return buffer

    growing, whole = filled(4), filled(1000)
    assert len(growing) == min(size, 64)
    assert torch.equal(growing.inputs[: len(growing)], whole.inputs[: len(whole)])
    assert torch.equal(growing.column("labels"), whole.column("labels"))
    again = Buffer(size, growing.policy)
    again.load_state_dict(growing.state_dict())
    assert torch.equal(again.inputs[: len(again)], whole.inputs[: len(whole)])


@pytest.mark.parametrize("size", [5, 12, 50])
def test_a_reservoir_by_blocks_equals_algorithm_r_one_by_one(size: int) -> None:
    buffer = Buffer(size)
    generator, mirror = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    plain: list[int] = []
    for start, n in ((0, 9), (9, 20), (29, 1)):
        buffer.add(numbered(start, n), generator)
        draws = torch.rand(n, dtype=torch.float64, generator=mirror).tolist()
        for item, draw in zip(range(start, start + n), draws, strict=True):
            if len(plain) < size:
                plain.append(item)
            elif int(draw * (item + 1)) < size:
                plain[int(draw * (item + 1))] = item
        assert buffer.inputs[: len(buffer)].flatten().tolist() == plain


def test_class_balance_is_uniform_within_a_class_even_after_shrinking() -> None:
    runs, size = 3000, 12
    generator = torch.Generator().manual_seed(2)
    counts = np.zeros(20)
    for _ in range(runs):
        buffer = Buffer(size, "class_balanced")
        for label in range(3):
            data = numbered(20 * label, 20, label)
            buffer.add(data, generator, data.labels)
            shares = buffer.column("labels").bincount()
            assert shares.max() - shares.min() <= 1
            assert len(buffer) == size
        kept = [k for k in stored(buffer) if k < 20]
        counts[kept] += 1
    expected = runs * 4 / 20
    chi2 = ((counts - expected) ** 2 / expected).sum() / (1 - 4 / 20) * 19 / 20
    assert chi2 < CHI2_999[19]


def test_a_ring_keeps_the_newest_of_each_class() -> None:
    generator = torch.Generator()
    buffer = Buffer(100, "ring", per_group=3)
    for start, label in ((0, 0), (10, 1), (20, 0)):
        data = numbered(start, 10, label)
        buffer.add(data, generator, data.labels)
    assert stored(buffer) == [17, 18, 19, 27, 28, 29]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=25),
    st.integers(1, 12),
    st.one_of(st.none(), st.integers(1, 4)),
)
def test_lowest_of_groups_against_a_plain_loop(
    samples: list[tuple[int, int]], size: int, per_group: int | None
) -> None:
    groups = torch.tensor([g for g, _ in samples])
    scores = torch.tensor([float(s) for _, s in samples])
    queues = {
        g: sorted(
            (i for i, (h, _) in enumerate(samples) if h == g), key=lambda i: (samples[i][1], i)
        )
        for g in sorted({g for g, _ in samples})
    }
    kept: list[int] = []
    for level in range(per_group or len(samples)):
        for queue in queues.values():
            if level < len(queue) and len(kept) < size:
                kept.append(queue[level])
    assert lowest_of_groups(groups, scores, size, per_group).tolist() == sorted(kept)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("size", [12, 100])
def test_new_groups_are_kept_as_if_everything_were_sorted(size: int, fresh: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    buffer = Buffer(size, "class_balanced", per_group=3)
    old_groups = torch.tensor([0, 0, 0, 1, 2, 2])
    groups = torch.randint(3 if fresh else 1, 6, (40,), generator=generator)
    old_scores = torch.rand(6, dtype=torch.float64, generator=generator)
    scores = torch.rand(40, dtype=torch.float64, generator=generator)
    everything = torch.cat([old_groups, groups]), torch.cat([old_scores, scores])
    kept = buffer._kept(old_groups, old_scores, groups, scores)
    assert kept.tolist() == lowest_of_groups(*everything, size, 3).tolist()


def test_herding_against_trying_every_candidate() -> None:
    features = torch.randn(15, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mean, chosen = features.mean(0), list[int]()
    for k in range(1, 9):
        left = [i for i in range(15) if i not in chosen]
        chosen.append(
            min(left, key=lambda i: float((mean - features[[*chosen, i]].sum(0) / k).norm()))
        )
    assert herding_order(features, 8).tolist() == chosen
    assert sorted(herding_order(features, 99).tolist()) == list(range(15))


def test_herded_samples_are_the_first_of_each_class_order() -> None:
    stream = toy_stream("class", n_experiences=2)
    _, learner = toy_run([], stream)
    buffer = make_buffer(stream, 12, None, "herding")
    for experience in stream:
        add_herded(buffer, learner, experience.data)
    assert buffer.column("labels").bincount().tolist() == [3, 3, 3, 3]
    data = stream.experiences[0].data
    x = data.gather((data.labels == 0).nonzero().squeeze(1))
    with torch.no_grad():
        features = torch.nn.functional.normalize(learner.model.features(x), dim=1)  # type: ignore[operator]
    mean = torch.nn.functional.normalize(features.mean(0), dim=0)
    best = x[herding_order(features, 3, mean)]
    kept = buffer.inputs[: len(buffer)][buffer.column("labels") == 0]
    assert torch.equal(kept.sort(0).values, best.sort(0).values)


def test_inputs_may_be_several_tensors_and_labels_actions() -> None:
    x = {"rgb": torch.arange(6, dtype=torch.uint8).view(6, 1), "depth": torch.rand(6, 2)}
    actions = torch.rand(6, 7)
    buffer = Buffer(6)
    buffer.add(TensorData(x, actions, 2, transform=keep_inputs), torch.Generator())
    _, learner = toy_run([], toy_stream())
    batch = buffer.batch(learner, torch.tensor([4, 1]))
    assert batch.x["rgb"].flatten().tolist() == [4, 1]
    assert torch.equal(batch.x["depth"], x["depth"][[4, 1]])
    assert torch.equal(batch.y, actions[[4, 1]])
    assert batch.task.tolist() == [2, 2]
    assert class_of(toy_stream("task"), actions, torch.full((6,), 2)).tolist() == [2] * 6


def test_a_map_style_data_set_is_read_only_where_it_is_kept() -> None:
    read: list[int] = []

    class Files(torch.utils.data.Dataset[tuple[Tensor, int]]):
        def __getitem__(self, i: int) -> tuple[Tensor, int]:
            read.append(i)
            return torch.tensor([float(i)]), i % 2

    buffer = Buffer(4, "class_balanced")
    labels = torch.arange(20) % 2
    buffer.add(MapData(Files(), labels), torch.Generator().manual_seed(0), labels)
    assert len(read) == 4
    assert stored(buffer) == sorted(read)
    assert buffer.column("labels").bincount().tolist() == [2, 2]


@pytest.mark.parametrize("policy", ["reservoir", "class_balanced", "ring"])
def test_a_restored_buffer_continues_as_the_original(policy: Any) -> None:
    stream = toy_stream("class", n_experiences=4)
    _, learner = toy_run([], stream)

    def add(buffer: Buffer, number: int, generator: torch.Generator) -> None:
        data = stream.experiences[number].data
        buffer.add(data, generator, None if policy == "reservoir" else data.labels)

    original = make_buffer(stream, 30, None, policy)
    generator = torch.Generator().manual_seed(0)
    for number in range(2):
        add(original, number, generator)
    restored = make_buffer(stream, 30, None, policy)
    restored.load_state_dict(original.state_dict())
    for buffer in (original, restored):
        same = torch.Generator().manual_seed(5)
        for number in (2, 3):
            add(buffer, number, same)
    assert len(original) == len(restored) == 30
    positions = torch.arange(30)
    for ours, theirs in itertools.pairwise(
        [b.batch(learner, positions) for b in (original, restored)]
    ):
        assert torch.equal(ours.x, theirs.x)
        assert torch.equal(ours.y, theirs.y)


def test_saved_state_holds_only_what_is_filled_and_memory_is_taken_once() -> None:
    buffer = Buffer(1000)
    assert buffer.state_dict()["inputs"] is None
    buffer.add(numbered(0, 10), torch.Generator())
    address = buffer.inputs.data_ptr()
    assert buffer.state_dict()["inputs"].untyped_storage().nbytes() == 10 * 8
    for start in range(10, 2000, 10):
        buffer.add(numbered(start, 10), torch.Generator().manual_seed(start))
    assert buffer.inputs.data_ptr() == address
    assert len(buffer) == 1000


def test_a_class_is_an_output_or_an_output_of_a_task() -> None:
    labels, tasks = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 2])
    assert class_of(toy_stream("domain"), labels, tasks).tolist() == [0, 1, 5]
    assert class_of(toy_stream("class"), labels, tasks).tolist() == [0, 1, 1]
    assert [count_classes(toy_stream(s)) for s in ("task", "domain", "class")] == [6, 6, 6]


def test_mistakes_are_named() -> None:
    buffer = Buffer(5)
    buffer.add(numbered(0, 3), torch.Generator())
    with pytest.raises(DataError, match="must store their inputs alike"):
        buffer.add(
            TensorData(torch.rand(3, 1), torch.zeros(3, dtype=torch.long)), torch.Generator()
        )
    with pytest.raises(PluginError, match="only a plain reservoir"):
        Buffer(5, "ring").add_batch(
            torch.zeros(1, 1), torch.zeros(1), torch.zeros(1), torch.Generator()
        )
    with pytest.raises(SettingError, match="size must be at least 1"):
        Buffer(0)
    with pytest.raises(SettingError, match="policy must be reservoir"):
        make_buffer(toy_stream(), 5, None, "lifo")  # type: ignore[arg-type]


def test_further_columns_stay_with_their_samples() -> None:
    buffer = Buffer(6, "class_balanced")
    generator = torch.Generator().manual_seed(0)
    for label in range(3):
        data = numbered(10 * label, 10, label)
        number = data.gather(torch.arange(10)).flatten().float()
        buffer.add(data, generator, data.labels, None, half=number / 2, pair=number[:, None] + 1)
    assert buffer.column("labels").bincount().tolist() == [2, 2, 2]
    numbers = buffer.inputs[:6].flatten().float()
    assert torch.equal(buffer.column("half"), numbers / 2)
    assert torch.equal(buffer.column("pair"), numbers[:, None] + 1)
    copied = Buffer(6, "class_balanced")
    copied.load_state_dict(buffer.state_dict())
    assert torch.equal(copied.column("half"), buffer.column("half"))


def test_samples_go_where_the_caller_says() -> None:
    buffer = Buffer(4, transformed=True)

    def place(slots: list[int], count: int, first: int) -> None:
        x = torch.arange(first, first + len(slots)).view(-1, 1)
        y = torch.zeros(len(slots), dtype=torch.long)
        buffer.place(torch.tensor(slots), count, x, y, y, score=x.flatten().float())

    place([0, 1, 2], 3, 10)
    assert len(buffer) == 3
    place([3], 4, 20)
    place([4, 1, 4], 4, 30)  # 4 is the spare row
    assert buffer.inputs[:4].flatten().tolist() == [10, 31, 12, 20]
    assert buffer.column("score").tolist() == [10, 31, 12, 20]
    assert buffer.seen == 7
    with pytest.raises(PluginError, match="a buffer of 4 samples that holds 4 cannot then hold 5"):
        place([0], 5, 0)
