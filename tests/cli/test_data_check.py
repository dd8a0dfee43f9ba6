"""``clframe data check`` of a user's own images: what it prints can be run."""

from __future__ import annotations

import csv
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clframe.cli.main import main


def _image(path: Path, number: int, size: tuple[int, int] = (8, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 255, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def _folder(root: Path, sizes: list[tuple[int, int]]) -> None:
    for k, name in enumerate(("ant", "bee")):
        for number in range(6):
            _image(root / name / f"{number}.png", 10 * k + number, sizes[number % len(sizes)])


def _printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("usable: clframe fit ")
    return shlex.split(line.removeprefix("usable: clframe "))


def _runs(words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*words, "max_steps=1", "logger=none", f"run_dir={folder}"])
    assert code == 0, capsys.readouterr().err


def test_images_of_several_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _folder(tmp_path / "pics", [(40, 50), (70, 90), (36, 36)])
    assert main(["data", "check", "folder", str(tmp_path / "pics")]) == 0
    words = _printed(capsys)
    assert "stream.size=32" in words
    _runs(words, tmp_path / "run", capsys)


def test_images_of_one_size_keep_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _folder(tmp_path / "pics", [(8, 8)])
    assert main(["data", "check", "folder", str(tmp_path / "pics")]) == 0
    words = _printed(capsys)
    assert words == ["fit", "stream=folder", f"stream.path={tmp_path / 'pics'}"]
    _runs(words, tmp_path / "run", capsys)


def test_a_path_that_has_to_be_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "my pics, {old}"
    _folder(root, [(8, 8)])
    assert main(["data", "check", "folder", str(root)]) == 0
    _runs(_printed(capsys), tmp_path / "run", capsys)


def test_what_cannot_be_read_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "pics"
    _folder(root, [(8, 8), (9, 9)])
    (root / "ant" / "0.png").write_bytes(b"damaged")
    assert main(["data", "check", "folder", str(root)]) == 0
    words = _printed(capsys)
    assert "stream.on_bad=skip" in words
    _runs(words, tmp_path / "run", capsys)


def test_a_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _folder(tmp_path, [(8, 8), (12, 10)])
    rows = [[f"{name}/{n}.png", name] for name in ("ant", "bee") for n in range(6)]
    with (tmp_path / "list.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["file", "label"], *rows])
    assert main(["data", "check", "file_list", str(tmp_path / "list.csv")]) == 0
    _runs(_printed(capsys), tmp_path / "run", capsys)


def test_a_class_folder_without_an_image_is_mentioned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _folder(tmp_path, [(8, 8)])
    (tmp_path / "cat").mkdir()
    assert main(["data", "check", "folder", str(tmp_path)]) == 0
    assert f"folders without an image: 1: {tmp_path / 'cat'}" in capsys.readouterr().out


def test_no_command_is_printed_that_would_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _folder(tmp_path, [(8, 8)])
    _image(tmp_path / "cat" / "only.png", 99)
    assert main(["data", "check", "folder", str(tmp_path)]) == 2
    shown = capsys.readouterr()
    assert "usable" not in shown.out
    assert "1 classes" not in shown.err
    assert "class 'cat' of" in shown.err
    (tmp_path / "cat" / "only.png").unlink()
    assert main(["data", "check", "folder", str(tmp_path), "--quick"]) == 0
    assert "usable" not in capsys.readouterr().out
