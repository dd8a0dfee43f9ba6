"""Augmentation, every place of data, and worker processes on a virtual GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from clframe.core.stream import Experience, Stream, Task
from clframe.data import loader
from clframe.data.augment import OWN
from clframe.data.dataset import TensorData, scale_images
from clframe.run import run
from tests.helpers import stored_streams
from tests.helpers.device_runs import (
    assert_same,
    killed_on_card,
    maker,
    on_cpu,
    same_on_both,
    small_images,
    virtual_card,
)

MLP: dict[str, Any] = {"name": "mlp", "hidden": [8]}
CNN: dict[str, Any] = {"name": "cnn", "channels": [4, 4], "features": 8, "norm": True}
ER: dict[str, Any] = {"replay": {"size": 12}}


@pytest.fixture(autouse=True)
def _end_workers() -> Iterator[None]:
    yield
    loader.end_all()


# ------------------------------------------------------------ augmentation

OTHERS: list[Any] = [
    {"RandomHorizontalFlip": {"p": 0.5}},
    {"RandomCrop": {"size": 16, "padding": 2}},
    {"RandomRotation": {"degrees": 20}},
    {"ColorJitter": {"brightness": 0.3, "contrast": 0.3, "saturation": 0.3}},
    {"RandomErasing": {"p": 0.5}},
]
"""Transforms of torchvision."""


@pytest.mark.parametrize("augment", [[name] for name in OWN], ids=lambda a: str(a[0]))
def test_augmentations(augment: list[Any]) -> None:
    same_on_both(maker(small_images(), CNN, ER, augment=augment))


def with_depth() -> Stream:
    """Color and depth of two classes, stored side by side."""
    draw = torch.Generator().manual_seed(0)
    stored = {
        "rgb": torch.randint(256, (24, 3, 16, 16), generator=draw, dtype=torch.uint8),
        "depth": torch.randint(2000, (24, 16, 16), generator=draw, dtype=torch.int16),
    }

    def together(x: dict[str, Tensor], task: Tensor) -> Tensor:
        depth = x["depth"].unsqueeze(1).float() / 2000
        return torch.cat([scale_images(x["rgb"], task), depth], 1)

    data = TensorData(stored, torch.arange(24) % 2, 0, transform=together)
    task = Task(0, "task0", (0, 1), lambda: data)
    return Stream(
        "seen", "class", [Experience(0, "e0", (task,), lambda: data)], [task], (4, 16, 16), 2
    )


def test_augmentations_one_after_the_other_with_depth() -> None:
    same_on_both(maker(with_depth(), CNN, ER, augment=list(OWN)))


def test_augmentations_of_torchvision() -> None:
    # RandomRotation and RandomErasing draw on the host and send what they drew.
    sent = "augment.py:__call__ copy of pageable memory to the card"
    same_on_both(maker(small_images(), CNN, ER, augment=OTHERS), [sent])


# ------------------------------------------------------------ where data is

TIERS = [
    ("memory", None),
    ("memory", "0"),
    ("memory", "5KB"),
    ("mapped", None),
    ("mapped", "0"),
    ("mapped", "5KB"),
    ("workers0", None),
    ("workers1", None),
]
"""Data and what the GPU has room for: all of it, nothing, or one of two arrays of 4.2 KB."""


@pytest.mark.parametrize("strategy", [ER, "cumulative"], ids=["er", "cumulative"])
@pytest.mark.parametrize(("kind", "room"), TIERS)
def test_places_of_data(kind: str, room: str | None, strategy: Any, tmp_path: Path) -> None:
    stream = stored_streams.stream_on(kind, tmp_path)
    make = maker(stream, MLP, strategy, device_memory=room)
    same_on_both(make)


def test_batches_of_workers_are_pinned_by_a_thread(tmp_path: Path) -> None:
    make = maker(stored_streams.stream_on("workers2", tmp_path), MLP, ER)
    with virtual_card() as card:
        built = make("cuda")
        run(built.learner, built.stream, "er")
    assert any("_pin_memory_loop" in thread for thread in card.pinned_by)
    assert not card.per_step()


def test_a_run_with_workers_is_resumed_in_an_epoch(tmp_path: Path) -> None:
    stream = stored_streams.stream_on("workers2", tmp_path)
    make = maker(stream, MLP, ER, augment=["flip"], limit_train_batches=6)
    card = killed_on_card(make, tmp_path / "run", steps=5)
    assert_same(card, on_cpu(make))
    assert not card.waits
