"""Where data is stored: on the device, on the host, in mapped files, behind workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import clframe
from clframe import DataError, SettingError, TensorData
from clframe.data import loader, storage
from clframe.data.dataset import scale_images
from clframe.data.storage import TensorSource, bytes_of, map_files, set_budget
from clframe.testing import prepare, run_built
from tests.helpers.stored_streams import stream_on

META = torch.device("meta")
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _leave_no_trace() -> Iterator[None]:
    yield
    loader.end_all()
    for device in (META, CPU):
        set_budget(device, None)


# ------------------------------------------------------------ what fits


def test_a_source_goes_to_the_device_as_far_as_there_is_room() -> None:
    first, second = (TensorSource(torch.zeros(100, 10, dtype=torch.uint8)) for _ in range(2))
    set_budget(META, 1500)
    assert first.to(META).device == META
    assert second.to(META).device == CPU  # both together are 2,000 bytes
    del first
    assert second.to(META).device == META


def test_another_budget_lets_go_of_what_was_there() -> None:
    source = TensorSource({"rgb": torch.zeros(10, 3), "depth": torch.zeros(10)})
    set_budget(META, 160)
    assert {t.device for t in source.to(META).values()} == {META}
    set_budget(META, 159)
    assert {t.device for t in source.to(META).values()} == {CPU}


def test_samples_that_stayed_on_the_host_are_brought_over_as_a_batch() -> None:
    x = {"a": torch.arange(10), "b": torch.randn(10, 2)}
    picked = torch.tensor([7, 0, 7])
    fetched = storage.fetch(x, picked, CPU)
    assert torch.equal(fetched["a"], picked)
    assert torch.equal(fetched["b"], x["b"][picked])
    sent = storage.fetch(x, picked, META)
    assert {key: (t.device, t.shape) for key, t in sent.items()} == {
        "a": (META, (3,)),
        "b": (META, (3, 2)),
    }


def test_samples_on_the_device_are_gathered_there() -> None:
    data = TensorData(torch.zeros(20, 4), torch.arange(20), transform=scale_images)
    set_budget(META, 320)
    moved = data.to(META)
    assert moved.gather(torch.tensor([3, 1], device=META)).shape == (2, 4)
    assert next(moved.batches(torch.arange(20), 5)).x.device == META


def test_mapped_files_stay_mapped_unless_they_fit(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(40, dtype=np.uint8).reshape(10, 4))
    source = map_files(tmp_path / "x.npy")
    stored = source.to(CPU)
    for budget, read in ((None, False), (39, False), (40, True)):
        set_budget(CPU, budget)
        now = source.to(CPU)
        assert torch.equal(now, stored)
        assert (now.data_ptr() != stored.data_ptr()) == read


def test_a_file_that_cannot_be_mapped_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_text("no array")
    with pytest.raises(DataError, match=r"cannot map data file '.*x\.npy'"):
        map_files({"rgb": tmp_path / "x.npy"})


@pytest.mark.parametrize(
    ("size", "expected"),
    [(7, 7), ("7", 7), ("1KB", 1024), ("2 gb", 2**31), ("0.5GiB", 2**29), (None, None)],
)
def test_sizes_can_be_written_with_units(size: Any, expected: int | None) -> None:
    assert bytes_of(size, "size") == expected


@pytest.mark.parametrize("size", ["much", "-1", -1, "8 apples", "nan", "inf"])
def test_what_is_no_size_is_refused(size: Any) -> None:
    with pytest.raises(SettingError, match=r"trainer\.device_memory must be a size"):
        prepare("split_mnist", trainer={"device_memory": size})


# ------------------------------------------------------------ equal numbers


def outcome(kind: str, folder: Path, **trainer: Any) -> tuple[np.ndarray, list[Tensor]]:
    prepared = prepare(
        stream_on(kind, folder),
        {"replay": {"size": 20}},
        {"name": "mlp", "hidden": [16]},
        optimizer={"name": "adam", "lr": 0.01},
        trainer={"max_epochs": 4, "batch_size": 16, **trainer},
    )
    result = run_built(prepared)
    return result.matrix.values, [p.detach().clone() for p in prepared.learner.parameters()]


@pytest.mark.parametrize("kind", ["mapped", "workers0", "workers1"])
@pytest.mark.parametrize("augment", [(), ({"flip": {"p": 0.2}}, {"jitter": {"contrast": 0.2}})])
def test_all_tiers_give_equal_numbers(kind: str, augment: Any, tmp_path: Path) -> None:
    """Matrix and weights, bit for bit; with replay, which keeps stored samples."""
    matrix, weights = outcome("memory", tmp_path, augment=augment)
    others, same = outcome(kind, tmp_path, augment=augment)
    assert (matrix == others).all()
    assert matrix[-1].mean() > 0.5
    assert all(torch.equal(a, b) for a, b in zip(weights, same, strict=True))


@pytest.mark.parametrize("budget", ["0", "1MB"])
def test_a_budget_changes_no_number(budget: str, accelerator: str, tmp_path: Path) -> None:
    matrix, weights = outcome("mapped", tmp_path, accelerator=accelerator)
    others, same = outcome("mapped", tmp_path, accelerator=accelerator, device_memory=budget)
    assert (matrix == others).all()
    assert all(torch.equal(a, b) for a, b in zip(weights, same, strict=True))


def test_a_run_can_be_continued_with_another_budget(tmp_path: Path) -> None:
    words = {"model": {"name": "mlp", "hidden": [8]}, "max_steps": 2, "progress": False}
    clframe.fit(stream_on("mapped", tmp_path), run_dir=tmp_path / "run", **words)  # type: ignore[arg-type]
    again = clframe.fit(
        stream_on("mapped", tmp_path),
        resume=tmp_path / "run",
        device_memory="2GB",
        **words,  # type: ignore[arg-type]
    )
    assert again.matrix.values.shape == (3, 2)
