"""Every arrangement of the official frames is found, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clframe.errors import DataError
from clframe.worlds.objects import catalog
from clframe.worlds.objects.frames.layouts import looks_right, scan

FOUR = ("bottle_01", "bowl_02", "cup_01", "paper_cutter_03")


def summary(root: Path) -> list[tuple[Any, ...]]:
    names = catalog.instances()
    return [(c.group, c.number, c.split, names[c.instance], len(c.names)) for c in scan(root).clips]


def test_the_catalog_is_the_official_one() -> None:
    names = catalog.instances()
    assert len(names) == len(set(names)) == 121
    assert len(catalog.CATEGORIES) == 40
    assert "cup_09" not in names
    assert names.index("u_disk_02") == 119
    first = {catalog.category_of(name) for name in names[: catalog.N_CHALLENGE_INSTANCES]}
    assert first == set(catalog.CATEGORIES[:19])
    assert {catalog.category_of(name) for name in names} == set(catalog.CATEGORIES)


def test_as_distributed(maker: Any) -> None:
    root = maker.distributed(factors=("pixel", "illumination"))
    dataset = scan(root)
    assert dataset.layouts == ["as distributed"]
    assert dataset.groups == ["illumination", "pixel"]
    assert len(dataset.clips) == 2 * 9 * 4 * 3
    first = dataset.clips[0]
    assert (first.group, first.number, first.split) == ("illumination", 1, "train")
    # Counting order, not that of letters.
    assert first.names == ("frame9.jpg", "frame10.jpg")
    assert first.depth is None
    assert looks_right(root)


def test_the_authors_folder_says_the_same(makers: Any) -> None:
    a = makers("a").distributed(factors=("clutter", "occlusion"))
    b = makers("b").benchmark(factors=("clutter", "occlusion"))
    assert scan(b).layouts == ["the authors' benchmark folder"]
    assert summary(a) == summary(b)


def test_tasks_are_counted_not_spelt_and_copies_are_left_out(maker: Any) -> None:
    maker.benchmark(segments=range(1, 10))
    # The authors' script copies segments into a folder of this name; it repeats what is there.
    maker.frame("sequence/train/task10/bottle_01/1.jpg", "bottle_01", 0)
    maker.frame("illumination/train/task10/bottle_01/1.jpg", "bottle_01", 0)
    numbers = [clip.number for clip in scan(maker.root).clips]
    assert sorted(set(numbers)) == list(range(1, 10))
    assert numbers == sorted(numbers)


def test_both_layouts_in_one_folder_are_not_counted_twice(maker: Any) -> None:
    once = summary(maker.distributed())
    maker.benchmark()
    assert summary(maker.root) == once


def test_a_folder_above_and_other_suffixes(maker: Any) -> None:
    maker.frame("deep/down/Train/Pixel/segment_03/cup_10/a.JPEG", "cup_01", 0)
    maker.frame("deep/down/Train/Pixel/segment_03/cup_10/.hidden.jpg", "cup_01", 0)
    (maker.root / "deep/down/Train/Pixel/segment_03/cup_10/Thumbs.db").write_bytes(b"x")
    assert summary(maker.root) == [("pixel", 3, "train", "cup_10", 1)]


def test_challenge_batches(maker: Any) -> None:
    dataset = scan(maker.challenge())
    assert dataset.groups == ["mixture"]
    assert dataset.layouts == ["challenge batches with label.csv"]
    numbers = [clip.number for clip in dataset.clips]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(1, 13))
    assert {(c.split, c.instance) for c in dataset.clips if c.number == 12} == {
        ("train", 0),
        ("train", 5),
        ("test", 0),
        ("test", 5),
    }


def test_challenge_images_in_a_folder_of_their_own(maker: Any) -> None:
    maker.frame("train/batch1/images/0001.jpg", "cup_01", 0)
    (maker.root / "train/batch1/label.csv").write_text("file name,label\n0001.jpg,12\n")
    (clip,) = scan(maker.root).clips
    assert (clip.folder, clip.names, clip.instance) == ("train/batch1/images", ("0001.jpg",), 12)


def test_lists_of_batches(maker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dataset = scan(maker.listed())
    assert dataset.groups == ["mixture"]
    # The one list of test images is shared out over the batches they belong to.
    assert len(dataset.clips) == 12 * 2 * 2
    assert {c.folder for c in dataset.clips if c.number == 3 and c.split == "test"} == {
        "test/iros/set2/bottle_01",
        "test/iros/set2/bowl_02",
    }
    assert not (tmp_path / "pickled").exists()


def test_a_factor_known_only_from_lists(maker: Any) -> None:
    dataset = scan(maker.listed("clutter", 9))
    assert dataset.groups == ["clutter"]
    assert {clip.number for clip in dataset.clips} == set(range(1, 10))


def test_depth_and_masks_are_found_beside(maker: Any) -> None:
    clip = scan(maker.distributed(segments=[1], trees=True)).clips[0]
    assert clip.folder == "train/illumination/segment1/bottle_01"
    assert clip.depth == "depth/train/illumination/segment1/bottle_01"
    assert clip.mask == "mask/train/illumination/segment1/bottle_01"


@pytest.mark.parametrize(
    ("color", "depth"),
    [
        ("rgb/cup_01", "depth/cup_01"),
        ("cup_01/color", "cup_01/depth"),
        ("cup_01", "cup_01/Depth"),
    ],
)
def test_depth_inside_a_segment_or_a_clip(maker: Any, color: str, depth: str) -> None:
    maker.frame(f"train/pixel/segment1/{color}/1.jpg", "cup_01", 0)
    maker.depth(f"train/pixel/segment1/{depth}/1.png", 700)
    (clip,) = scan(maker.root).clips
    assert catalog.instances()[clip.instance] == "cup_01"
    assert clip.depth == f"train/pixel/segment1/{depth}"


def test_an_unknown_instance_is_counted_and_left_out(maker: Any) -> None:
    maker.distributed(segments=[1], instances=("cup_01",))
    maker.frame("train/illumination/segment1/teapot_01/1.jpg", "cup_01", 0)
    dataset = scan(maker.root)
    assert dict(dataset.strangers) == {"teapot_01": 1}
    assert {clip.instance for clip in dataset.clips} == {catalog.instances().index("cup_01")}


def test_another_folder_is_refused_with_what_was_found(maker: Any) -> None:
    maker.frame("views/cup_01/001.jpg", "cup_01", 0)
    (maker.root / "README.md").write_text("")
    with pytest.raises(DataError, match=r"found README.md, views/; expected train/illumination/"):
        scan(maker.root)


def test_an_empty_and_a_missing_folder(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="found nothing; expected"):
        scan(tmp_path / "empty")
    with pytest.raises(DataError, match=r"there is no folder '.*gone'"):
        scan(tmp_path / "gone")
    assert not looks_right(tmp_path / "gone")


def test_a_folder_with_strangers_only_names_them(maker: Any) -> None:
    maker.frame("factors/pixel/segment1/cup_f/001.jpg", "cup_01", 0)
    with pytest.raises(DataError, match=r"not in the catalog \(cup_f\)"):
        scan(maker.root)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("file name,label\n001.jpg,121\n", "line 2 has the label '121'"),
        ("file name,label\n001.jpg,cup\n", "line 2 has the label 'cup'"),
        ("a,b\n1,2\n", "line 2 names no file; its columns must be 'file name' and 'label'"),
    ],
)
def test_a_label_file_that_is_wrong(maker: Any, text: str, sentence: str) -> None:
    maker.challenge(batches=1)
    (maker.root / "train/batch1/label.csv").write_text(text)
    with pytest.raises(DataError, match=sentence):
        scan(maker.root)


def test_a_list_that_is_wrong(maker: Any) -> None:
    maker.listed(batches=1)
    list_file = maker.root / "batches_filelists/domain/iros/train_batch_00.txt"
    list_file.write_text("only-a-path.jpg\n")
    with pytest.raises(DataError, match="line 1 must be a path and a label"):
        scan(maker.root)


def test_a_link_that_leads_back_up_ends(maker: Any) -> None:
    root = maker.distributed(segments=[1], instances=("cup_01",))
    (root / "train" / "again").symlink_to(root, target_is_directory=True)
    assert len(scan(root).clips) == 3
