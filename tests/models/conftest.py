"""A made-up stream of images: the same classes under changing light, as in OpenLORIS."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from clframe.core.stream import Experience, Stream, Task
from clframe.data.dataset import TensorData, scale_images

N_TASKS = 3
CLASSES = 4


def make_images(shape: tuple[int, int, int] = (3, 32, 32), per_class: int = 6) -> Stream:
    generator = torch.Generator().manual_seed(0)
    patterns = torch.rand(CLASSES, *shape, generator=generator)

    def part(number: int) -> TensorData:
        y = torch.arange(CLASSES).repeat_interleave(per_class)
        light = 1.0 - 0.3 * number
        noise = 0.05 * torch.randn(len(y), *shape, generator=generator)
        x = ((patterns[y] * light + noise).clamp(0, 1) * 255).to(torch.uint8)
        return TensorData(x, y, number, transform=scale_images)

    train, test = [part(i) for i in range(N_TASKS)], [part(i) for i in range(N_TASKS)]
    outputs = tuple(range(CLASSES))
    tasks = [Task(i, f"task{i}", outputs, lambda i=i: test[i]) for i in range(N_TASKS)]  # type: ignore[misc]
    experiences = [
        Experience(i, f"exp{i}", (tasks[i],), lambda i=i: train[i])  # type: ignore[misc]
        for i in range(N_TASKS)
    ]
    return Stream("images", "domain", experiences, tasks, shape, CLASSES, "made-up images")


@pytest.fixture
def image_stream() -> Callable[..., Stream]:
    return make_images
