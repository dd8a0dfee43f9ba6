"""Whether a sample is tested on does not depend on what else is in the data."""

from __future__ import annotations

import csv
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import clframe
from clframe import DataError, Stream
from clframe.data.holding_out import held_out, position
from clframe.data.identify import ids_of


def _image(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    seed = sum(ord(letter) * (k + 1) for k, letter in enumerate(str(path)[-30:]))
    pixels = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def _sides(stream: Stream) -> tuple[set[int], set[int]]:
    """The contents that are learned and tested on."""
    learned = [ids_of(experience.data) for experience in stream]
    tested = [ids_of(task.data) for task in stream.tasks]
    first, second = (
        {number for one in side if one is not None for number in one.tolist()}
        for side in (learned, tested)
    )
    return first, second


def _kept(make: Callable[[], Stream], grow: Callable[[], None]) -> None:
    learned, tested = _sides(make())
    assert learned
    assert tested
    assert not learned & tested
    grow()
    now_learned, now_tested = _sides(make())
    assert len(now_learned | now_tested) > len(learned | tested)
    assert learned <= now_learned
    assert tested <= now_tested


def _folder(root: Path, names: tuple[str, ...], n: int, start: int = 0) -> None:
    for name in names:
        for number in range(start, start + n):
            _image(root / name / f"{number}.png")


def test_images_that_are_added_move_no_others(tmp_path: Path) -> None:
    root = tmp_path / "zoo"
    _folder(root, ("ant", "bee", "cat"), 30)

    def grow() -> None:
        _folder(root, ("ant",), 5, start=100)
        _image(root / "bee" / "0a.png")

    for seed in range(3):
        _kept(lambda seed=seed: clframe.stream("folder", path=str(root), seed=seed), grow)  # type: ignore[misc]
        shutil.rmtree(root)
        _folder(root, ("ant", "bee", "cat"), 30)


def test_a_new_domain_moves_no_image_of_the_old_ones(tmp_path: Path) -> None:
    # Cells of a few images: most of them need the rule for small groups.
    _folder(tmp_path / "week1", ("ant", "bee", "cat", "dog"), 3)
    _folder(tmp_path / "week2", ("ant", "bee", "cat", "dog"), 3)
    _kept(
        lambda: clframe.stream("folder", path=str(tmp_path), by="domain"),
        lambda: _folder(tmp_path / "week3", ("ant", "bee", "cat", "dog"), 3),
    )


def test_another_place_of_the_folder_is_the_same_split(tmp_path: Path) -> None:
    _folder(tmp_path / "here", ("ant", "bee"), 20)
    shutil.copytree(tmp_path / "here", tmp_path / "elsewhere" / "there")
    here = clframe.stream("folder", path=str(tmp_path / "here"))
    there = clframe.stream("folder", path=str(tmp_path / "elsewhere" / "there"))
    assert _sides(here) == _sides(there)
    assert _sides(here) != _sides(clframe.stream("folder", path=str(tmp_path / "here"), seed=1))


def test_rows_of_a_list_may_come_in_any_order(tmp_path: Path) -> None:
    _folder(tmp_path, ("ant", "bee"), 30)
    rows = [[f"{name}/{n}.png", name, n] for name in ("ant", "bee") for n in range(30)]
    path = tmp_path / "list.csv"

    def write(chosen: list[list[Any]]) -> None:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([["file", "label", "time"], *chosen])

    for by in ("class", "time"):
        write(rows[:50])
        _kept(
            lambda by=by: clframe.stream("file_list", path=str(path), by=by, n_experiences=2),  # type: ignore[misc]
            lambda: write(random.Random(0).sample(rows, len(rows))),
        )


def test_arrays_are_divided_by_content() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(120, 5, generator=generator), torch.arange(120) % 3
    more_x, more_y = torch.randn(30, 5, generator=generator), torch.arange(30) % 3
    size = {"n": 0}

    def make() -> Stream:
        if not size["n"]:
            return clframe.stream_from((x, y))
        return clframe.stream_from((torch.cat([more_x, x]), torch.cat([more_y, y])))

    _kept(make, lambda: size.update(n=1))


def test_a_dataset_can_be_appended_to() -> None:
    def make(n: int) -> Stream:
        pairs = [(torch.tensor([float(i)]), i % 4) for i in range(n)]
        return clframe.stream_from(pairs)

    def tested(stream: Stream) -> set[int]:
        return {i for task in stream.tasks for i in task.data.indices.tolist()}  # type: ignore[attr-defined]

    few, many = tested(make(100)), tested(make(140))
    assert few == {i for i in many if i < 100}
    assert len(few) == pytest.approx(20, abs=8)


def test_copies_of_a_sample_are_on_the_same_side() -> None:
    x = torch.randn(40, 5, generator=torch.Generator().manual_seed(0)).repeat(2, 1)
    stream = clframe.stream_from((x, torch.arange(40).repeat(2) % 2))
    learned, tested = _sides(stream)
    assert not learned & tested
    # Nothing else can be done with a class that has copies of one sample alone.
    stream = clframe.stream_from((torch.zeros(8, 2), torch.arange(8) % 2))
    assert [len(task.data) for task in stream.tasks] != [0, 0]


def test_small_classes_have_both_sides() -> None:
    for seed in range(200):
        for n in (2, 3):
            keys = [f"{seed} {number}" for number in range(n)]
            tested, alone = held_out(keys, ["a"] * n, 0.2, seed)
            assert 0 < int(tested.sum()) < n
            assert not alone


def test_a_small_class_never_gives_a_training_sample_to_the_test_set_that_it_had_to_fill() -> None:
    """What docs/own_data.md says of classes without a sample below the share."""
    moved_back = 0
    for number in range(300):
        keys = [f"{number}/{k}" for k in range(4)]
        if min(position(key, 0) for key in keys[:3]) < 0.2:
            continue
        before, _ = held_out(keys[:3], ["a"] * 3, 0.2, 0)
        after, _ = held_out(keys, ["a"] * 4, 0.2, 0)
        assert not any(after[:3] & ~before)
        moved_back += int((before & ~after[:3]).sum())
    assert moved_back  # the one that stood in for the test set is learned again


def test_a_class_of_one_image_is_refused_by_name(tmp_path: Path) -> None:
    _folder(tmp_path, ("ant", "bee"), 10)
    _folder(tmp_path, ("cat",), 1)
    with pytest.raises(DataError, match="class cat has only one sample"):
        clframe.stream("folder", path=str(tmp_path))


def test_folders_named_train_and_test_stay(tmp_path: Path) -> None:
    _folder(tmp_path / "train", ("ant", "bee"), 4)
    _folder(tmp_path / "test", ("ant", "bee"), 3)
    stream = clframe.stream("folder", path=str(tmp_path))
    assert [len(e.data) for e in stream] == [4, 4]
    assert [len(t.data) for t in stream.tasks] == [3, 3]
