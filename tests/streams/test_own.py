"""Streams of the user's own images, arrays and data sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import clframe
from clframe import ClframeError, DataError, SettingError
from clframe.cli.main import main
from clframe.testing import check_stream

ANIMALS = ("ant", "bee", "cat", "dog")


def _image(path: Path, value: int, size: int = 8) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(value).integers(0, 40, (size, size, 3)) + value
    Image.fromarray(pixels.astype(np.uint8)).save(path)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Ten images of each of four animals, told apart by their brightness."""
    for k, animal in enumerate(ANIMALS):
        for n in range(10):
            _image(tmp_path / "zoo" / animal / f"{n}.png", 55 * k + n % 3)
    return tmp_path / "zoo"


def test_a_folder_of_images_becomes_a_matrix_with_one_command(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fit", "stream=folder", f"stream.path={images}", "stream.n_experiences=2"]
    code = main([*words, "max_epochs=30", "logger=none", f"run_dir={tmp_path / 'run'}"])
    assert code == 0, capsys.readouterr().err
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["matrix"]["columns"] == ["ant-bee", "cat-dog"]
    assert results["scenario"] == "class"
    assert results["matrix"]["values"][1][0] == 1.0  # learned from the images
    assert "40 images" in results["source"]


def test_a_folder_keeps_the_contract(images: Path) -> None:
    for scenario in ("class", "task", "domain"):
        stream = clframe.stream("folder", path=str(images), scenario=scenario)  # type: ignore[arg-type]
        check_stream(stream)
        assert stream.input_shape == (3, 8, 8)
    assert [e.name for e in stream] == list(ANIMALS)
    learned, tested = [len(e.data) for e in stream], [len(t.data) for t in stream.tasks]
    assert [n + m for n, m in zip(learned, tested, strict=True)] == [10] * 4
    assert sum(tested) == pytest.approx(0.2 * 40, abs=4)


def test_groups_name_classes(images: Path) -> None:
    groups = [["dog", "ant"], "bee"]
    stream = clframe.stream("folder", path=str(images), groups=groups)
    assert [e.name for e in stream] == ["dog-ant", "bee"]
    assert stream.experiences[0].outputs == (0, 3)
    with pytest.raises(SettingError, match="no class 'cow' in the data; it has ant, bee"):
        clframe.stream("folder", path=str(images), groups=["cow"])
    with pytest.raises(SettingError, match="'bee' is in two experiences"):
        clframe.stream("folder", path=str(images), groups=["bee", ["bee"]])


def test_domains_are_folders_above_classes(tmp_path: Path) -> None:
    for domain in ("day", "night"):
        for split, n in (("train", 4), ("test", 2)):
            for k, animal in enumerate(ANIMALS[:2]):
                for i in range(n):
                    _image(tmp_path / split / domain / animal / f"{i}.jpg", 60 * k + i)
    stream = clframe.stream("folder", path=str(tmp_path), by="domain")
    check_stream(stream)
    assert stream.scenario == "domain"
    assert [e.name for e in stream] == ["day", "night"]
    assert [len(e.data) for e in stream] == [8, 8]
    assert [len(t.data) for t in stream.tasks] == [4, 4]


@pytest.mark.parametrize("kind", ["csv", "json", "jsonl"])
def test_a_list_of_files_with_times(images: Path, kind: str) -> None:
    rows = [
        {"file": str(path.relative_to(images)), "label": path.parent.name, "time": 100 - i}
        for i, path in enumerate(sorted(images.rglob("*.png")))
    ]
    place = images / f"list.{kind}"
    if kind == "csv":
        lines = ["file,label,time", *(f"{r['file']},{r['label']},{r['time']}" for r in rows)]
        place.write_text("\n".join(lines))
    elif kind == "json":
        place.write_text(json.dumps(rows))
    else:
        place.write_text("\n".join(json.dumps(row) for row in rows))
    stream = clframe.stream("file_list", path=str(place), by="time", n_experiences=4)
    check_stream(stream)
    assert [e.name for e in stream] == ["time0", "time1", "time2", "time3"]
    # The largest time is of the first file, so its class comes last.
    assert stream.experiences[-1].data.labels.unique().tolist() == [0]


def test_bad_images_are_named_counted_and_left_out_on_request(
    images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (images / "bee" / "3.png").write_bytes(b"not an image")
    stream = clframe.stream("folder", path=str(images))
    with pytest.raises(DataError, match=r"cannot read 1 of 40 images: '.*bee/3\.png'"):
        stream.experiences[1].data.gather(torch.arange(1))
    stream = clframe.stream("folder", path=str(images), on_bad="skip")
    assert sum(len(e.data) for e in stream) + sum(len(t.data) for t in stream.tasks) == 39
    assert "left out 1 of 40 images" in capsys.readouterr().err


BAD: list[tuple[dict[str, Any], str]] = [
    ({"path": "nowhere"}, "there is no folder 'nowhere'"),
    ({"by": "domain"}, "has no domain"),
    ({"by": "time"}, "use stream=file_list"),
    ({"n_experiences": 9}, "at most 4, the number of classes"),
    ({"test_fraction": 1.5}, "test_fraction must be above 0"),
]


@pytest.mark.parametrize(("settings", "words"), BAD)
def test_bad_settings_get_a_sentence(images: Path, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ClframeError, match=words):
        clframe.stream("folder", **{"path": str(images), **settings})


def test_images_of_several_sizes_want_one(images: Path) -> None:
    _image(images / "ant" / "large.png", 3, size=12)
    with pytest.raises(SettingError, match=r"set stream\.size"):
        clframe.stream("folder", path=str(images)).experiences[0].data.gather(torch.arange(1))
    stream = clframe.stream("folder", path=str(images), size=6, color="gray")
    assert stream.experiences[0].data.gather(torch.arange(2)).shape == (2, 1, 6, 6)


def test_a_class_in_one_split_only(tmp_path: Path) -> None:
    for place in ("train/ant", "train/bee", "test/ant"):
        _image(tmp_path / place / "0.png", 1)
    with pytest.raises(DataError, match=r"1 class of the training images \(bee\) .* no test"):
        clframe.stream("folder", path=str(tmp_path))


class Digits(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """A map-style data set without ``targets``."""

    def __init__(self, n: int) -> None:
        self.x = torch.randn(n, 5, generator=torch.Generator().manual_seed(n))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        if i >= len(self):
            raise IndexError
        return self.x[i] + 3 * (i % 4), i % 4


def test_a_dataset_in_three_lines() -> None:
    stream = clframe.stream_from(Digits(40), Digits(20), n_experiences=2)
    check_stream(stream)
    result = clframe.fit(stream, "naive", model="mlp", max_epochs=1, run_dir=False, progress=False)
    assert result.matrix.columns == ["0-1", "2-3"]


def test_arrays_by_domain_and_by_any_list() -> None:
    x, y = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3
    where = [("lab", "field", "home")[i % 3 // 1 if i < 30 else 0] for i in range(60)]
    stream = clframe.stream_from((x, y), by="domain", column=where, groups=["home", "lab", "field"])
    check_stream(stream)
    assert [e.name for e in stream] == ["home", "lab", "field"]
    assert all(task.outputs == (0, 1, 2) for task in stream.tasks)
    with pytest.raises(SettingError, match="give column="):
        clframe.stream_from((x, y), by="domain")


def test_labels_out_of_range() -> None:
    x, y = torch.randn(6, 2), torch.tensor([0, 1, 2, 0, 1, 2])
    with pytest.raises(DataError, match="label 2 is out of range: class_names has 2 names"):
        clframe.stream_from((x, y), class_names=["a", "b"])
    stream = clframe.stream_from((x, y), class_names=["a", "b", "c"], n_experiences=3)
    assert [e.name for e in stream] == ["a", "b", "c"]


def test_an_untimed_test_set_is_one_column() -> None:
    x, y = torch.randn(40, 3), torch.arange(40) % 2
    stream = clframe.stream_from((x, y), (x, y), by="time", column=range(40), n_experiences=4)
    assert [task.name for task in stream.tasks] == ["test"]
    assert len(stream) == 4
    result = clframe.fit(stream, "naive", model="mlp", max_epochs=1, run_dir=False, progress=False)
    assert np.array(result.matrix.values).shape == (5, 1)


# ------------------------------------------------------------------------ bad input, by command


def _fit(*words: str) -> int:
    return main(["fit", *words, "max_steps=1", "logger=none", "run_dir=nowhere"])


def test_bad_input_is_one_sentence_on_the_command_line(
    images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def says(*words: str) -> str:
        assert _fit(*words) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert not Path("nowhere").exists()
        return line

    rows = ["file,label", *(f"{a}/{n}.png,{k}" for k, a in enumerate(ANIMALS) for n in range(10))]
    (images / "list.csv").write_text("\n".join(rows))
    listed = ("stream=file_list", f"stream.path={images / 'list.csv'}")
    message = says(*listed, "stream.class_names=[ant,bee,cat]")
    assert "row 31: label '3' is out of range; class_names has 3 names" in message
    (images / "bee" / "3.png").write_bytes(b"not an image")
    (images / "cat" / "0.png").write_bytes(b"")
    message = says("stream=folder", f"stream.path={images}")
    assert "cannot read 2 of 40 images: " in message
    assert "bee/3.png" in message
    assert "stream.on_bad=skip" in message
    for animal in ANIMALS[:3]:
        (images / "train" / animal).mkdir(parents=True)
        _image(images / "train" / animal / "0.png", 3)
    for animal in ANIMALS:
        for n in range(10):
            (images / animal / f"{n}.png").unlink()
        _image(images / "test" / animal / "0.png", 3)
    message = says("stream=folder", f"stream.path={images}")
    assert "1 class of the test images (dog) have no training sample" in message


def test_numbers_of_a_list_get_names(images: Path) -> None:
    rows = ["file,label", *(f"{a}/{n}.png,{k}" for k, a in enumerate(ANIMALS) for n in range(10))]
    (images / "list.csv").write_text("\n".join(rows))
    place = str(images / "list.csv")
    stream = clframe.stream("file_list", path=place, class_names=list(ANIMALS), n_experiences=2)
    assert [task.name for task in stream.tasks] == ["ant-bee", "cat-dog"]


def test_images_too_large_for_memory_are_read_each_time(
    images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory = clframe.stream("folder", path=str(images)).experiences[0].data
    monkeypatch.setattr("clframe.streams.custom.image_data._IN_MEMORY", 100)
    anew = clframe.stream("folder", path=str(images)).experiences[0].data
    assert (type(in_memory).__name__, type(anew).__name__) == ("TensorData", "MapData")
    order = torch.arange(4)
    first, second = (next(iter(data.batches(order, 4))) for data in (in_memory, anew))
    assert torch.equal(first.x, second.x)
    for path in (images / "ant").glob("*.png"):  # some of which are tested on
        path.write_bytes(b"")
    with pytest.raises(DataError, match=r"image '.*ant/\d+\.png'"):
        list(anew.batches(torch.arange(len(anew)), 4))
