"""One small stream behind each kind of storage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clframe import MapData, TensorData
from clframe.core.stream import Experience, Stream, Task
from clframe.data.dataset import Data, scale_images
from clframe.data.storage import TensorSource, map_files


class Items:
    """Samples of a tensor, one by one."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.x[index], int(self.y[index])


def stream_on(kind: str, folder: Path) -> Stream:
    """Four classes of 6x6 images in two experiences, behind each kind of storage."""
    generator = torch.Generator().manual_seed(0)
    prototypes = torch.randint(0, 200, (4, 1, 6, 6), generator=generator)
    labels = torch.arange(4).repeat(30)
    noise = torch.randint(0, 50, (2, 120, 1, 6, 6), generator=generator)
    images = (prototypes[labels] + noise).to(torch.uint8)
    sources: list[Any] = []
    for split in range(2):
        path = folder / f"{split}.npy"
        np.save(path, images[split].numpy())
        makers: dict[str, Callable[[], Any]] = {
            "memory": lambda split=split: TensorSource(images[split]),  # type: ignore[misc]
            "mapped": lambda path=path: map_files(path),  # type: ignore[misc]
        }
        sources.append(makers.get(kind, lambda split=split: Items(images[split], labels))())

    def data(split: int, number: int) -> Data:
        chosen = ((labels // 2) == number).nonzero().squeeze(1)
        source = sources[split]
        if isinstance(source, TensorSource):
            return TensorData(source, labels[chosen], number, chosen, scale_images)
        count = int(kind.removeprefix("workers"))
        return MapData(source, labels[chosen], number, chosen, scale_images, count)

    tasks = [Task(i, f"t{i}", (2 * i, 2 * i + 1), lambda i=i: data(1, i)) for i in range(2)]  # type: ignore[misc]
    learned = [Experience(i, f"e{i}", (tasks[i],), lambda i=i: data(0, i)) for i in range(2)]  # type: ignore[misc]
    return Stream("storage", "class", learned, tasks, (1, 6, 6), 4)
