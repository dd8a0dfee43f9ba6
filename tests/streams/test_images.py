from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clframe
from clframe import DataError, SettingError
from clframe.testing import check_stream, toy_stream


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
@pytest.mark.parametrize("name", ["split_mnist", "permuted_mnist", "rotated_mnist"])
def test_streams_keep_the_contract(name: str, scenario: Any) -> None:
    check_stream(clframe.stream(name, scenario=scenario, n_experiences=3))


@pytest.mark.parametrize("scenario", ["task", "domain", "class"])
def test_the_toy_stream_keeps_the_contract(scenario: Any) -> None:
    check_stream(toy_stream(scenario))


def test_split_shares_out_the_classes() -> None:
    stream = clframe.stream("split_mnist")
    assert [e.outputs for e in stream] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert [len(e.data) for e in stream] == [1000] * 5
    assert [len(t.data) for t in stream.tasks] == [200] * 5
    assert set(stream.experiences[1].data.labels.tolist()) == {2, 3}
    assert "embedded" in stream.source


def test_domain_scenario_labels_by_position() -> None:
    stream = clframe.stream(
        "split_mnist", scenario="domain", class_order=[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    )
    assert stream.n_outputs == 2
    by_class = clframe.stream("split_mnist", class_order=[9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
    ours, theirs = stream.experiences[0].data, by_class.experiences[0].data
    assert torch.equal(ours.labels == 0, theirs.labels == 9)


def test_class_order_follows_the_seed() -> None:
    orders = {
        tuple(e.outputs for e in clframe.stream("split_mnist", class_order="shuffled", seed=seed))
        for seed in range(4)
    }
    assert len(orders) == 4
    with pytest.raises(SettingError, match="once, got \\[1, 2\\]"):
        clframe.stream("split_mnist", class_order=[1, 2])


def test_permuted_pixels_are_the_same_pixels() -> None:
    stream = clframe.stream("permuted_mnist", n_experiences=3, pad=2)
    assert stream.input_shape == (1, 32, 32)
    order = torch.arange(5)
    plain, first, second = (
        next(iter(e.data.batches(order, 5))).x.flatten(1) for e in stream.experiences
    )
    assert not torch.equal(plain, first)
    assert not torch.equal(first, second)
    assert torch.equal(plain.sort(1).values, second.sort(1).values)


def test_mixed_tasks_are_permuted_each_by_its_own() -> None:
    stream = clframe.stream("permuted_mnist", n_experiences=2)
    data = stream.experiences[0].data
    images = data.gather(torch.tensor([0, 0]))
    both = data.transform(images, torch.tensor([0, 1]))
    alone = data.transform(images[:1], torch.tensor([1]))
    assert torch.equal(both[1:], alone)


def test_rotation_turns_by_the_angle() -> None:
    stream = clframe.stream("rotated_mnist", n_experiences=2, max_angle=180.0)
    data = stream.experiences[1].data  # turned by 90 degrees
    image = data.gather(torch.tensor([0]))
    turned = data.transform(image, torch.tensor([1]))
    expected = torch.rot90(image.float() / 255, 1, (2, 3))
    assert (turned - expected).abs().max() < 1e-4


def turns(**settings: Any) -> list[float]:
    """The angle of each experience of a rotated stream in degrees, read off its transform."""
    stream = clframe.stream("rotated_mnist", n_experiences=20, **settings)
    turn = stream.experiences[0].data.transform.turn  # type: ignore[attr-defined]
    return [float(d) % 360 for d in torch.atan2(turn[:, 1, 0], turn[:, 0, 0]).rad2deg()]


def test_angles_are_even_or_drawn_from_their_part_or_from_all() -> None:
    assert turns() == pytest.approx([9.0 * i for i in range(20)], abs=1e-3)
    parts = turns(angles="parts", seed=3)
    assert all(9.0 * i <= angle < 9.0 * (i + 1) for i, angle in enumerate(parts))
    drawn = turns(angles="drawn", seed=3)
    assert all(0 <= angle < 180 for angle in drawn)
    assert drawn != sorted(drawn)
    assert drawn == turns(angles="drawn", seed=3) != turns(angles="drawn", seed=4)


def test_the_nearest_pixel_is_taken_when_that_is_asked_for() -> None:
    stream = clframe.stream("rotated_mnist", n_experiences=3, interpolation="nearest")
    data = stream.experiences[1].data  # turned by 60 degrees
    image = data.gather(torch.tensor([0]))
    turned = (data.transform(image, torch.tensor([1])) * 255)[0, 0]
    angle = torch.tensor(60.0).deg2rad()
    expected = torch.zeros(28, 28)
    for row in range(28):
        for column in range(28):
            # The pixel whose place, turned back about the middle, is nearest.
            x, y = column - 13.5, row - 13.5
            from_x = float(x * angle.cos() - y * angle.sin() + 13.5)
            from_y = float(x * angle.sin() + y * angle.cos() + 13.5)
            if -0.5 < from_x < 27.5 and -0.5 < from_y < 27.5:
                expected[row, column] = image[0, 0, round(from_y), round(from_x)]
    # Places that are halfway between two pixels may be read either way.
    assert ((turned - expected).abs() > 0.01).sum() <= 4
    assert set(turned.round().unique().tolist()) <= set(image.unique().float().tolist()) | {0.0}


@pytest.mark.parametrize("name", ["permuted_mnist", "rotated_mnist"])
def test_some_images_are_drawn_anew_for_each_experience(name: str) -> None:
    stream = clframe.stream(name, n_experiences=2, samples=30, scenario="class")
    everything = clframe.stream(name, n_experiences=2, scenario="class")
    for number, experience in enumerate(stream.experiences):
        data, all_data = experience.data, everything.experiences[number].data
        assert len(data) == 30
        images = data.gather(torch.arange(30)).flatten(1)
        known = all_data.gather(torch.arange(len(all_data))).flatten(1)
        for image, label in zip(images, data.labels, strict=True):
            places = (known == image).all(1).nonzero().squeeze(1)
            assert int(label) in all_data.labels[places].tolist()
    first, second = (e.data.gather(torch.arange(30)) for e in stream.experiences)
    assert not torch.equal(first, second)
    assert len(stream.tasks[0].data) == 1000
    with pytest.raises(SettingError, match="samples must be between 1 and 5000"):
        clframe.stream(name, samples=0)


def write_idx(path: Path, array: np.ndarray[Any, Any]) -> None:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(
        gzip.compress(header + array.tobytes())
        if path.suffix == ".gz"
        else header + array.tobytes()
    )


@pytest.fixture
def small_mnist(tmp_path: Path) -> Path:
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part, n, suffix in (("train", 40, ""), ("t10k", 20, ".gz")):
        images = rng.integers(0, 255, (n, 28, 28), dtype=np.uint8)
        write_idx(folder / f"{part}-images-idx3-ubyte{suffix}", images)
        write_idx(folder / f"{part}-labels-idx1-ubyte{suffix}", np.arange(n, dtype=np.uint8) % 10)
    return tmp_path


def test_real_files_are_used_when_they_are_there(small_mnist: Path) -> None:
    stream = clframe.stream("split_mnist", data_dir=small_mnist)
    assert "from the data folder" in stream.source
    assert [len(e.data) for e in stream] == [8] * 5
    check_stream(stream)


def test_a_truncated_file_is_named(small_mnist: Path) -> None:
    path = small_mnist / "MNIST" / "raw" / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(
        DataError, match=r"train-images-idx3-ubyte' is truncated: .* promises 31360"
    ):
        clframe.stream("split_mnist", data_dir=small_mnist)


def test_a_truncated_gzip_file_is_named(small_mnist: Path) -> None:
    path = small_mnist / "MNIST" / "raw" / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"cannot read data file '.*t10k-images-idx3-ubyte\.gz'"):
        clframe.stream("split_mnist", data_dir=small_mnist)


def test_a_foreign_file_is_named(small_mnist: Path) -> None:
    path = small_mnist / "MNIST" / "raw" / "train-labels-idx1-ubyte"
    path.write_bytes(b"<html>not found</html>")
    with pytest.raises(DataError, match="is not an idx file"):
        clframe.stream("split_mnist", data_dir=small_mnist)


def test_files_that_do_not_belong_together_are_refused(small_mnist: Path) -> None:
    write_idx(small_mnist / "MNIST/raw/train-labels-idx1-ubyte", np.zeros(39, dtype=np.uint8))
    with pytest.raises(DataError, match="40 train images, 39 labels"):
        clframe.stream("split_mnist", data_dir=small_mnist)


@pytest.mark.parametrize("name", ["split_fashion_mnist", "split_cifar10", "split_cifar100"])
def test_missing_data_says_what_to_put_where(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is not in .* put .* or set download=true"):
        clframe.stream(name, data_dir=tmp_path)


def test_cifar_is_read_from_its_official_files(tmp_path: Path, monkeypatch: Any) -> None:
    import pickle

    import torchvision

    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for file in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        content = {
            "data": rng.integers(0, 255, (20, 3072), dtype=np.uint8),
            "labels": [i % 10 for i in range(20)],
        }
        (folder / file).write_bytes(pickle.dumps(content))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))
    with pytest.raises(DataError, match="cannot read cifar10 in"):
        clframe.stream("split_cifar10", data_dir=tmp_path)
    monkeypatch.setattr(torchvision.datasets.CIFAR10, "_check_integrity", lambda self: True)
    monkeypatch.setattr(torchvision.datasets.cifar, "check_integrity", lambda *a: True)
    stream = clframe.stream("split_cifar10", data_dir=tmp_path)
    check_stream(stream)
    assert [len(e.data) for e in stream] == [20] * 5


def test_the_embedded_file_is_what_its_notice_says() -> None:
    stream = clframe.stream("split_mnist", n_experiences=10)
    assert [len(e.data) for e in stream] == [500] * 10
    assert [len(t.data) for t in stream.tasks] == [100] * 10


@pytest.mark.parametrize("name", ["split_mnist", "permuted_mnist", "rotated_mnist"])
def test_images_can_be_normalized(name: str) -> None:
    plain, centered = (clframe.stream(name, normalize=on) for on in (False, True))
    order = torch.arange(64)
    one = next(plain.experiences[1].data.batches(order, 64)).x
    other = next(centered.experiences[1].data.batches(order, 64)).x
    assert torch.allclose(other, (one - 0.1307) / 0.3081, atol=1e-6)
    everything = next(centered.tasks[0].data.batches(order, 64)).x
    assert abs(float(everything.mean())) < 0.3
