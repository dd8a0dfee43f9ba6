"""Published layouts: tiny trees of the same make, what is missing, and ``clframe data check``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import clframe
from clframe import DataError
from clframe.cli.main import main
from clframe.testing import check_stream


def image(path: Path, value: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((6, 6, 3), value % 256, np.uint8)).save(path)


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def core50_tree(root: Path, lists: bool = True) -> None:
    """Objects 1 to 50 in all sessions; an order of its own for run 1."""
    for session in range(1, 12):
        for number in range(1, 51):
            place = f"s{session}/o{number}/C_{session:02d}_{number:02d}_000.png"
            image(root / "core50_128x128" / place, number)
    if not lists:
        return
    train = [s for s in range(1, 12) if s not in (3, 7, 10)]

    def line(session: int, number: int) -> str:
        return f"s{session}/o{number}/C_{session:02d}_{number:02d}_000.png {number - 1}"

    tests = [line(s, o) for s in (3, 7, 10) for o in range(1, 51)]
    order = list(range(50, 0, -1))
    groups = [order[:10], *(order[k : k + 5] for k in range(10, 50, 5))]
    nc = [[line(s, o) for o in group for s in train] for group in groups]
    ni = [[line(s, o) for o in range(1, 51)] for s in reversed(train)]
    nic = [nc[0], *([line(train[k % 8], 1 + k % 50)] for k in range(78))]
    for name, batches in (("NC", nc), ("NI", ni), ("NIC", nic)):
        folder = root / "batches_filelists" / f"{name}_inc" / "run1"
        for number, batch in enumerate(batches):
            write(folder / f"train_batch_{number:02d}_filelist.txt", batch)
        write(folder / "test_filelist.txt", tests)


def tiny_imagenet_tree(root: Path) -> None:
    wnids = ["n01", "n02", "n03", "n04"]
    words = ["n01\tgoldfish, Carassius", "n02\tcrane", "n03\tcrane, machine", "n04\tbus"]
    write(root / "words.txt", words)
    for k, wnid in enumerate(wnids):
        for n in range(3):
            image(root / "train" / wnid / "images" / f"{wnid}_{n}.JPEG", 60 * k)
    for n in range(8):
        image(root / "val" / "images" / f"val_{n}.JPEG", n)
    rows = [f"val_{n}.JPEG\t{wnids[n % 4]}\t0\t0\t5\t5" for n in range(8)]
    write(root / "val" / "val_annotations.txt", rows)


def imagenet_r_tree(root: Path) -> None:
    write(root / "README.txt", ["renditions"])
    for k in range(4):
        for n in range(10):
            image(root / f"n0144353{k}" / f"art_{n}.jpg", 60 * k)


def cub200_tree(root: Path) -> None:
    birds = ["001.Black_footed_Albatross", "002.Laysan_Albatross", "003.Sooty_Albatross"]
    write(root / "classes.txt", [f"{k} {name}" for k, name in enumerate(birds, 1)])
    rows = [(n, k, n % 3 != 0) for n, k in enumerate((k for k in (1, 2, 3) for _ in range(6)), 1)]
    for n, k, _ in rows:
        image(root / "images" / birds[k - 1] / f"{n}.jpg", 50 * k)
    write(root / "images.txt", [f"{n} {birds[k - 1]}/{n}.jpg" for n, k, _ in rows])
    write(root / "image_class_labels.txt", [f"{n} {k}" for n, k, _ in rows])
    write(root / "train_test_split.txt", [f"{n} {int(train)}" for n, _, train in rows])


def domainnet_tree(root: Path) -> None:
    for domain in ("clipart", "infograph", "painting", "quickdraw", "real", "sketch"):
        for split, n in (("train", 4), ("test", 2)):
            rows = []
            for label, name in enumerate(("aircraft_carrier", "zebra")):
                for k in range(n):
                    place = f"{domain}/{name}/{split}_{k}.jpg"
                    image(root / place, 100 * label)
                    rows.append(f"{place} {label}")
            write(root / f"{domain}_{split}.txt", rows)


def clear10_tree(root: Path) -> None:
    names = ["BACKGROUND", "baseball", "bus"]
    for split in ("train", "test"):
        buckets: dict[str, dict[str, str]] = {}
        for bucket in range(11):
            for name in names:
                places = [f"labeled_images/{bucket}/{name}/{n}.jpg" for n in range(2)]
                for place in places:
                    image(root / split / place, 20 * bucket)
                listed = f"labeled_metadata/{bucket}/{name}.json"
                content = {str(n): {"IMG_PATH": place} for n, place in enumerate(places)}
                write(root / split / listed, [json.dumps(content)])
                buckets.setdefault(str(bucket), {})[name] = listed
        write(root / split / "labeled_metadata.json", [json.dumps(buckets)])
        write(root / split / "class_names.txt", names)


TREES: dict[str, Callable[[Path], None]] = {
    "core50": core50_tree,
    "tiny_imagenet": tiny_imagenet_tree,
    "imagenet_r": imagenet_r_tree,
    "cub200": cub200_tree,
    "domainnet": domainnet_tree,
    "clear10": clear10_tree,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "core50": {"run": 1},
    "tiny_imagenet": {"n_experiences": 2},
    "imagenet_r": {"n_experiences": 2, "size": 6},
    "cub200": {"n_experiences": 3, "size": 6},
    "domainnet": {"size": 6},
    "clear10": {"size": 6},
}


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder with the layout of each data set."""
    places = {name: tmp_path_factory.mktemp(name) / "data" for name in TREES}
    for name, make in TREES.items():
        make(places[name])
    return places


@pytest.mark.parametrize("name", TREES)
def test_the_published_layout_is_a_stream(name: str, trees: dict[str, Path]) -> None:
    stream = clframe.stream(name, path=str(trees[name]), **SETTINGS[name])
    check_stream(stream)
    lazily = clframe.stream(name, path=str(trees[name]), num_workers=0, **SETTINGS[name])
    first, second = (
        next(iter(s.experiences[0].data.batches(_all(s), 9))) for s in (stream, lazily)
    )
    assert (first.x == second.x).all()
    assert (first.y == second.y).all()


def _all(stream: clframe.Stream) -> Any:
    import torch

    return torch.arange(min(4, len(stream.experiences[0].data)))


def sizes(stream: clframe.Stream) -> tuple[list[int], list[int]]:
    return [len(e.data) for e in stream], [len(t.data) for t in stream.tasks]


def test_core50_protocols(trees: dict[str, Path], tmp_path: Path) -> None:
    def make(**settings: Any) -> clframe.Stream:
        return clframe.stream("core50", path=str(trees["core50"]), **{"run": 1, **settings})

    nc = make()
    assert nc.scenario == "class"
    assert sizes(nc) == ([80] + [40] * 8, [30] + [15] * 8)
    # Run 1 begins with the last ten objects.
    assert nc.experiences[0].name.startswith("remote_control5")
    ni = make(protocol="ni")
    assert (ni.scenario, sizes(ni)) == ("domain", ([50] * 8, [150]))
    nic = make(protocol="nic")
    assert (nic.scenario, len(nic), len(nic.tasks)) == ("class", 79, 1)
    assert len(nic.experiences[0].outputs) == 10
    assert len(nic.experiences[1].outputs) == 1
    assert make(level="category").n_outputs == 10
    with pytest.raises(DataError, match="lacks batches_filelists/NC_inc/run5"):
        make(run=5)
    core50_tree(tmp_path / "bare", lists=False)
    bare = clframe.stream("core50", path=str(tmp_path / "bare"))
    assert sizes(bare) == ([80] + [40] * 8, [30] + [15] * 8)
    assert bare.experiences[0].name.startswith("plug_adapter1-")
    sessions = clframe.stream("core50", path=str(tmp_path / "bare"), protocol="ni")
    names = ["s01", "s02", "s04", "s05", "s06", "s08", "s09", "s11"]
    assert [e.name for e in sessions] == names
    with pytest.raises(DataError, match=r"lacks the folder batches_filelists, which .*nic needs"):
        clframe.stream("core50", path=str(tmp_path / "bare"), protocol="nic")


def test_other_counts_and_names(trees: dict[str, Path]) -> None:
    def make(name: str, **more: Any) -> clframe.Stream:
        return clframe.stream(name, path=str(trees[name]), **{**SETTINGS[name], **more})

    tiny = make("tiny_imagenet")
    assert sizes(tiny) == ([6, 6], [4, 4])
    # A name that two classes share tells neither.
    assert [e.name for e in tiny] == ["bus-goldfish", "n02-n03"]
    renditions = make("imagenet_r")
    learned, tested = sizes(renditions)
    assert [n + m for n, m in zip(learned, tested, strict=True)] == [20, 20]
    assert sum(tested) == pytest.approx(0.2 * 40, abs=4)
    held = [sorted(t.data.indices.tolist()) for t in make("imagenet_r", class_order=None).tasks]  # type: ignore[attr-defined]
    other = make("imagenet_r", class_order=None, seed=9)
    assert held == [sorted(t.data.indices.tolist()) for t in other.tasks]  # type: ignore[attr-defined]
    other = make("imagenet_r", class_order=None, split_seed=9)
    assert held != [sorted(t.data.indices.tolist()) for t in other.tasks]  # type: ignore[attr-defined]
    assert sizes(make("cub200")) == ([4, 4, 4], [2, 2, 2])
    birds = make("cub200", class_order=None)
    assert birds.experiences[0].info["classes"] == ["001.Black_footed_Albatross"]
    domains = make("domainnet")
    assert sizes(domains) == ([8] * 6, [4] * 6)
    chosen = make("domainnet", domains=["sketch", "real"])
    assert [e.name for e in chosen] == ["sketch", "real"]
    years = make("clear10")
    assert [e.name for e in years] == [f"bucket{n:02d}" for n in range(1, 11)]
    assert sizes(years) == ([6] * 10, [6] * 10)
    assert years.scenario == domains.scenario == "domain"


def test_clear10_by_folders_alone_holds_about_three_of_ten_out(tmp_path: Path) -> None:
    for bucket in (1, 2):
        for name in ("bus", "dress"):
            for n in range(10):
                image(tmp_path / "labeled_images" / str(bucket) / name / f"{n}.jpg", n)
    stream = clframe.stream("clear10", path=str(tmp_path), size=6)
    assert sum(sizes(stream)[1]) == pytest.approx(0.3 * 40, abs=4)


@pytest.mark.parametrize("name", TREES)
def test_what_is_missing_is_said(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        clframe.stream(name, data_dir=tmp_path)
    message = str(caught.value)
    assert f"is not in '{tmp_path}" in message
    assert "put " in message
    assert f"clframe data check {name} DIR" in message
    with pytest.raises(DataError, match=r"lacks .*; put "):
        clframe.stream(name, path=str(tmp_path))


# ------------------------------------------------------------------------ data check


@pytest.mark.parametrize("name", TREES)
def test_data_check_prints_a_command_that_works(
    name: str, trees: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = {"core50": "run1"}.get(name)
    if run:  # the check looks at run 0
        folder = trees[name] / "batches_filelists" / "NC_inc"
        if not (folder / "run0").exists():
            (folder / "run0").symlink_to(folder / run)
    assert main(["data", "check", name, str(trees[name])]) == 0
    out = capsys.readouterr().out
    assert "unreadable: none" in out
    command = shlex.split(out.splitlines()[-1].removeprefix("usable: "))
    assert command[:4] == ["clframe", "fit", f"stream={name}", f"stream.path={trees[name]}"]
    small = ["max_steps=1", "model=mlp", "model.hidden=[4]", "logger=none"]
    small += [f"run_dir={tmp_path / 'run'}"]
    assert main([*command[1:], *small]) == 0, capsys.readouterr().err


def test_data_check_finds_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cub200_tree(tmp_path)
    birds = sorted((tmp_path / "images").rglob("*.jpg"))
    birds[0].unlink()
    birds[3].write_bytes(b"damaged")
    assert main(["data", "check", "cub200", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "missing: 1 of 18" in out
    assert str(birds[0]) in out
    assert f"unreadable: 1: {birds[3]}" in out
    assert "stream.on_bad=skip" in out
    assert main(["data", "check", "cub200", str(tmp_path), "--quick"]) == 0
    assert "not opened" in capsys.readouterr().out
    words = ["fit", "stream=cub200", f"stream.path={tmp_path}", "stream.size=6", "max_steps=1"]
    words += ["stream.n_experiences=3", "logger=none", f"run_dir={tmp_path / 'run'}"]
    assert main(words) == 2
    assert "cannot read" in capsys.readouterr().err
    assert main([*words, "stream.on_bad=skip"]) == 0
    assert "left out 2 of 18 images" in capsys.readouterr().err


BAD: list[tuple[str, str, str, str]] = [
    ("cub200", "train_test_split.txt", "1 1\n", "image 2 of"),
    ("cub200", "image_class_labels.txt", "1 2 3\n", "line 1: expected two words"),
    ("domainnet", "real_train.txt", "zebra.jpg 0\n", "must be DOMAIN/CLASS/image"),
    (
        "tiny_imagenet",
        "val/val_annotations.txt",
        "val_0.JPEG n99\n",
        "line 1: expected an image and",
    ),
    ("clear10", "train/labeled_metadata.json", "[]", "should hold a JSON object"),
    ("imagenet_r", "misplaced.jpg", "", "must be in a folder named after its class"),
]


@pytest.mark.parametrize(("name", "file", "content", "words"), BAD)
def test_a_bad_list_is_one_sentence(
    name: str,
    file: str,
    content: str,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    TREES[name](tmp_path)
    (tmp_path / file).write_text(content)
    assert main(["data", "check", name, str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert words in message
    assert len(message.strip().splitlines()) == 1


def test_a_class_number_out_of_range(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cub200_tree(tmp_path)
    labels = (tmp_path / "image_class_labels.txt").read_text().replace("1 1\n", "1 9\n", 1)
    (tmp_path / "image_class_labels.txt").write_text(labels)
    assert main(["fit", "stream=cub200", f"stream.path={tmp_path}"]) == 2
    assert "class 9 of image 1 is out of range; classes.txt has 3" in capsys.readouterr().err
