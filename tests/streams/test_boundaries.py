"""Streams without hard boundaries: proportions against independent counts, seeds, small runs."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import clframe
from clframe import ClframeError
from clframe.cli.main import main
from clframe.core.stream import Stream
from clframe.data.concat import JoinedData
from clframe.data.dataset import TensorData, keep_inputs
from clframe.data.reindexed import in_order, relabelled
from clframe.testing import check_stream

NAMES = (
    "i_blurry",
    "si_blurry",
    "gradual",
    "repetition",
    "few_shot",
    "long_tailed",
    "noisy_labels",
)
SMALL: dict[str, Any] = {"model": {"name": "mlp", "hidden": [8]}, "run_dir": False}


def counts(stream: Stream) -> np.ndarray[Any, Any]:
    """Samples of each class in each experience: experiences by classes."""
    return np.array(
        [np.bincount(e.data.labels.numpy(), minlength=stream.n_outputs) for e in stream]
    )


def indices(stream: Stream) -> list[list[int]]:
    return [e.data.indices.tolist() for e in stream]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scenario", ["class", "task"])
def test_streams_keep_the_contract(name: str, scenario: Any) -> None:
    stream = clframe.stream(name, scenario=scenario)
    check_stream(stream)
    for experience in stream:  # no output is open that has no sample
        assert set(experience.outputs) == set(experience.data.labels.tolist())


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_is_a_function_of_its_seed(name: str) -> None:
    first, again, other = (clframe.stream(name, seed=s) for s in (3, 3, 4))
    assert indices(first) == indices(again)
    labels = [[e.data.labels.tolist() for e in s] for s in (first, again, other)]
    assert labels[0] == labels[1]
    assert (indices(first), labels[0]) != (indices(other), labels[2])


@pytest.mark.parametrize("name", NAMES)
def test_a_small_run(name: str) -> None:
    stream = clframe.stream(name, base={"name": "split_mnist", "n_experiences": 5})
    result = clframe.fit(stream, "er", max_steps=3, progress=False, **SMALL)
    assert result.matrix.values.shape == (len(stream) + 1, 5)
    assert np.isfinite(result.matrix.values).all()


# ------------------------------------------------------------------------ i-Blurry


def test_i_blurry_has_the_proportions_of_the_paper() -> None:
    stream = clframe.stream("i_blurry", disjoint=0.5, blur=0.1)
    table = counts(stream)
    assert table.sum() == 5000  # 500 of each of ten digits, each once
    assert (table.sum(0) == 500).all()
    assert len({i for part in indices(stream) for i in part}) == 5000
    spread = (table > 0).sum(0)
    assert sorted(spread.tolist()) == [1] * 5 + [5] * 5  # N = 50 % of the classes
    for digit in range(10):
        column = table[:, digit]
        if spread[digit] == 1:
            assert column[digit // 2] == 500
        else:  # 100 - M % in its own experience, M/(T-1) % in each of the others
            assert column[digit // 2] == 450
            others = np.delete(column, digit // 2)
            assert others.sum() == 50
            assert others.max() - others.min() <= 1
    assert not stream.boundaries


def test_i_blurry_spread_over_all_follows_the_programs() -> None:
    table = counts(clframe.stream("i_blurry", disjoint=0.0, blur=0.5, spread="all"))
    own = np.array([table[d // 2, d] for d in range(10)])
    # Half of 500 stays, and a fifth of the other half comes back by lot.
    assert abs(own.mean() - 300) < 10
    assert (table.sum(1) == 1000).all()


def test_the_ends_of_i_blurry() -> None:
    base = counts(clframe.stream("split_mnist"))
    assert (counts(clframe.stream("i_blurry", disjoint=1.0)) == base).all()
    assert (counts(clframe.stream("i_blurry", blur=0.0)) == base).all()


# ------------------------------------------------------------------------ Si-Blurry


def test_si_blurry_gives_everything_once_and_exchanges_what_it_says() -> None:
    shapes = set()
    for seed in range(4):
        stream = clframe.stream("si_blurry", seed=seed, disjoint=0.5, blur=0.3)
        table = counts(stream)
        assert (table.sum(0) == 500).all()
        assert len({i for part in indices(stream) for i in part}) == 5000
        fixed = [u for e in stream for u in e.info["disjoint"]]
        loose = [u for e in stream for u in e.info["blurry"]]
        assert sorted(fixed + loose) == list(range(10))
        assert len(fixed) == 5
        assert ((table > 0).sum(0)[fixed] == 1).all()
        exchanged = [e.info["exchanged"] for e in stream]
        assert 0 < sum(exchanged) <= round(0.3 * 2500)
        for k, experience in enumerate(stream):
            # As many come as go, so an experience is as large as its classes.
            own = experience.info["disjoint"] + experience.info["blurry"]
            assert table[k].sum() == 500 * len(own)
            strangers = table[k, [u for u in loose if u not in own]].sum()
            assert strangers <= exchanged[k]
        shapes.add(tuple(table.sum(1)))
    assert len(shapes) > 1  # sizes are drawn


# ------------------------------------------------------------------------ gradual


def test_the_share_of_the_next_experience_rises_linearly() -> None:
    stream = clframe.stream("gradual", base={"name": "split_mnist", "n_experiences": 2}, width=0.8)
    old = clframe.stream("split_mnist", n_experiences=2)
    assert [len(e.data) for e in stream] == [len(e.data) for e in old]
    assert sorted(i for p in indices(stream) for i in p) == sorted(
        i for p in indices(old) for i in p
    )
    labels = torch.cat([e.data.labels for e in stream]).numpy()
    is_new = labels >= 5
    n = 1000  # 0.8 / 2 of 2500 on each side of the boundary
    assert not is_new[: 2500 - n].any()
    assert is_new[2500 + n :].all()
    stretch = is_new[2500 - n : 2500 + n].reshape(10, -1).mean(1)
    assert np.abs(stretch - (np.arange(10) + 0.5) / 10).max() < 0.04
    assert is_new[2500 - n : 2500 + n].sum() == n


def test_domains_drift_too() -> None:
    stream = clframe.stream("gradual", base={"name": "permuted_mnist", "n_experiences": 3})
    check_stream(stream)
    middle = stream.experiences[1]
    assert [task.name for task in middle.tasks] == ["task0", "task1", "task2"]
    shares = np.bincount(middle.data.tasks.numpy()) / len(middle.data)
    # A quarter of the experience beside each boundary; a quarter of that is the neighbour's.
    assert np.abs(shares - [1 / 16, 7 / 8, 1 / 16]).max() < 0.005


# ------------------------------------------------------------------------ repetition


def test_classes_occur_first_and_again_as_the_distributions_say() -> None:
    from clframe.streams.task_free.repetition import _present, first_occurrence

    weights = first_occurrence("geometric", 0.3, 8)
    by_hand = np.array([0.7**k * 0.3 for k in range(8)])
    assert np.allclose(weights.numpy(), by_hand / by_hand.sum())
    zipf = np.array([1 / k**1.5 for k in range(1, 9)])
    assert np.allclose(first_occurrence("zipf", 1.5, 8).numpy(), zipf / zipf.sum())
    present = _present(20_000, weights, 0.25, torch.Generator().manual_seed(0)).numpy()
    first = present.argmax(0)
    assert np.abs(np.bincount(first) / 20_000 - weights.numpy()).max() < 0.02
    later = np.arange(8)[:, None] > first
    assert abs(present[later].mean() - 0.25) < 0.01
    assert not present[np.arange(8)[:, None] < first].any()


def test_an_experience_shares_its_samples_among_its_classes() -> None:
    stream = clframe.stream("repetition", n_experiences=12, samples=100, repeat=0.5)
    table = counts(stream)
    assert (table.sum(1) == 100).all()
    for row in table:
        here = row[row > 0]
        assert here.max() - here.min() <= 1
    assert (table > 0).any(0).all() or (table.sum(0) == 0).sum() == 0
    seen = Counter(i for part in indices(stream) for i in part)
    assert set(seen.values()) == {1}  # at most 12 * 100 of 5000: nothing is shown twice
    assert stream.boundaries


def test_a_class_alone_has_no_more_samples_than_there_are() -> None:
    stream = clframe.stream("repetition", n_experiences=4, samples=5000, repeat=0.0)
    assert counts(stream).max() == 500


# ------------------------------------------------------------------------ few-shot


def test_few_shot_counts() -> None:
    stream = clframe.stream("few_shot", base_classes=4, way=3, shot=7)
    expected = np.zeros((3, 10), int)
    expected[0, :4], expected[1, 4:7], expected[2, 7:] = 500, 7, 7
    assert (counts(stream) == expected).all()
    assert [e.name for e in stream] == ["base", "session1", "session2"]
    assert [len(clframe.stream("few_shot").experiences[k].data) for k in range(3)] == [3000, 10, 10]


# ------------------------------------------------------------------------ long tail


@pytest.mark.parametrize("order", ["ordered", "shuffled"])
def test_the_long_tail_is_exponential(order: Any) -> None:
    table = counts(clframe.stream("long_tailed", imbalance=50, order=order)).sum(0)
    expected = [int(500 * 50 ** (-r / 9) + 1e-9) for r in range(10)]
    assert expected[0] == 50 * expected[-1]
    assert sorted(table.tolist(), reverse=True) == expected
    assert (table.tolist() == expected) == (order == "ordered")


# ------------------------------------------------------------------------ noisy labels


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])
def test_the_transition_matrix_of_wrong_labels(kind: Any) -> None:
    base = {"name": "split_mnist", "n_experiences": 2}
    clean = clframe.stream("split_mnist", n_experiences=2)
    noisy = clframe.stream("noisy_labels", base=base, rate=0.4, kind=kind)
    matrix = np.zeros((10, 10))
    for before, after in zip(clean, noisy, strict=True):
        assert before.data.indices.tolist() == after.data.indices.tolist()  # type: ignore[attr-defined]
        np.add.at(matrix, (before.data.labels.numpy(), after.data.labels.numpy()), 1)
        wrong = int((before.data.labels != after.data.labels).sum())
        assert after.info["wrong_labels"] == wrong == 1000
    matrix /= 500
    expected = np.zeros((10, 10))
    for group in (range(5), range(5, 10)):
        for k in group:
            if kind == "symmetric":
                expected[k, list(group)] = 0.4 / 4
            else:
                expected[k, group[(k - group[0] + 1) % 5]] = 0.4
            expected[k, k] = 0.6
    assert np.allclose(matrix, expected)
    for before, after in zip(clean.tasks, noisy.tasks, strict=True):
        assert torch.equal(before.data.labels, after.data.labels)


# ------------------------------------------------------------------------ any base stream


def test_wrappers_take_wrappers_and_own_images(tmp_path: Path) -> None:
    for k, animal in enumerate(("ant", "bee", "cat", "dog")):
        for n in range(10):
            place = tmp_path / ("train" if n < 8 else "test") / animal / f"{n}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((4, 4, 3), 60 * k + n, np.uint8)).save(place)
    own = {"name": "folder", "path": str(tmp_path), "n_experiences": 2}
    tailed = {"name": "long_tailed", "base": own, "imbalance": 2}
    stream = clframe.stream("i_blurry", base=tailed, disjoint=0.0, blur=0.5)
    check_stream(stream)
    assert [e.name for e in stream] == ["ant-bee", "cat-dog"]
    assert [t.name for t in stream.tasks] == ["ant-bee", "cat-dog"]
    assert counts(stream).sum(0).tolist() == [8, 6, 5, 4]
    assert (counts(stream) > 0).all()


def test_joined_data_keeps_an_order_and_its_labels() -> None:
    parts = [
        TensorData(torch.arange(3.0)[:, None] + 10 * i, torch.arange(3) + 3 * i, i) for i in (0, 1)
    ]
    for part in parts:
        part.transform = keep_inputs
    data = relabelled(JoinedData(parts), torch.tensor([5, 4, 3, 2, 1, 0]))
    ordered = in_order(in_order(data, torch.tensor([5, 0, 3, 1])), torch.tensor([2, 0, 1]))
    ordered = relabelled(ordered.to(torch.device("cpu")), torch.tensor([7, 8, 9]))
    batch = next(iter(ordered.batches(torch.arange(3), 3)))
    assert batch.x[:, 0].tolist() == [10.0, 12.0, 0.0]
    assert batch.y.tolist() == [7, 8, 9]
    assert batch.task.tolist() == [1, 1, 0]
    assert ordered.subset(torch.tensor([1])).labels.tolist() == [8]
    assert ordered.gather(torch.tensor([2])).tolist() == [[0.0]]


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("i_blurry", {"disjoint": 1.5}, "stream.disjoint must be a share from 0 to 1, got 1.5"),
    ("i_blurry", {"blur": -0.1}, "stream.blur must be a share from 0 to 1"),
    ("i_blurry", {"base": "permuted_mnist"}, "has the same classes in several experiences"),
    ("i_blurry", {"scenario": "domain"}, "has the same classes in several experiences"),
    (
        "i_blurry",
        {"base": {"name": "split_mnist", "n_experiences": 1}},
        "only one experience to blur",
    ),
    ("si_blurry", {"base": "split_mnits"}, "did you mean 'split_mnist'?"),
    ("gradual", {"width": 0.0}, "stream.width must be above 0 and at most 1"),
    ("repetition", {"parameter": 2.0}, "must be between 0 and 1, got 2.0"),
    ("few_shot", {"base_classes": 10}, "leaves no classes for later sessions"),
    ("few_shot", {"base_classes": 5}, "stream.way=2 must divide the 5 classes"),
    ("few_shot", {"shot": 501}, "class 6 of stream 'split_mnist' has 500 samples"),
    ("long_tailed", {"imbalance": 0.5}, "stream.imbalance must be at least 1"),
    ("noisy_labels", {"rate": 1.0}, "stream.rate must be a share from 0 to below 1"),
    ("noisy_labels", {"base": {"name": "split_mnist", "n_experiences": 10}}, "has only one class"),
    ("gradual", {"base": "point_robot"}, "whose tasks are data with classes"),
]


@pytest.mark.parametrize(("name", "settings", "words"), BAD)
def test_bad_settings_are_one_sentence(name: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ClframeError) as caught:
        clframe.stream(name, **settings)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------ methods


@pytest.mark.parametrize("strategy", ["ewc", "lwf", "si", "mas", "dgr", "icarl", "agem"])
def test_methods_that_need_boundaries_are_refused(
    strategy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["fit", "stream=i_blurry", f"strategy={strategy}", "run_dir=nowhere"])
    message = capsys.readouterr().err
    assert code == 2, message
    assert "has to know when a task ends, but stream 'i_blurry' has no boundaries" in message
    assert not Path("nowhere").exists()


@pytest.mark.parametrize("strategy", ["naive", "er", "der", "er_ace"])
def test_methods_that_need_none_learn(strategy: str) -> None:
    result = clframe.fit("i_blurry", strategy, max_steps=2, progress=False, **SMALL)
    assert np.isfinite(result.matrix.values).all()


# ------------------------------------------------------------------------ the page


def _commands() -> list[str]:
    page = (Path(__file__).parents[2] / "docs" / "boundaries.md").read_text()
    return [
        *re.findall(r"\| `(clframe fit [^`]*)` \|", page),
        *re.findall(r"^clframe .*", page, re.M),
    ]


@pytest.mark.parametrize("command", _commands())
def test_the_commands_of_the_page_run(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(command)[1:]
    short = [] if "trainer.passes=1" in words else ["max_steps=2"]
    where = ["model.hidden=[8]", "logger=none", f"run_dir={tmp_path / 'run'}"]
    assert main([*words, *short, *where]) == 0, capsys.readouterr().err
    assert (tmp_path / "run" / "results.json").is_file()


def test_the_page_has_a_command_for_each_stream() -> None:
    assert {re.findall(r"stream=(\w+)", c)[0] for c in _commands()} == set(NAMES)
