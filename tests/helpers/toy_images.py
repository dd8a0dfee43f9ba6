"""The toy stream as small images, for networks with convolutions."""

from __future__ import annotations

import dataclasses
import functools

import torch

from clframe import Experience, Stream, Task
from clframe.data.dataset import TensorData, keep_inputs
from clframe.testing import toy_stream


def toy_images(scenario: str, samples: int = 40) -> Stream:
    """Three experiences of two classes of images, 1 x 6 x 6."""
    plain = toy_stream(scenario, features=36, samples=samples)  # type: ignore[arg-type]

    def images(of: Task | Experience) -> TensorData:
        data = of.data
        assert isinstance(data, TensorData)
        x = data.gather(torch.arange(len(data))).view(-1, 1, 6, 6)
        return TensorData(x, data.labels, data.tasks, transform=keep_inputs)

    tasks = [
        dataclasses.replace(task, load=functools.partial(images, task)) for task in plain.tasks
    ]
    experiences = [
        dataclasses.replace(one, tasks=(tasks[one.index],), load=functools.partial(images, one))
        for one in plain.experiences
    ]
    return dataclasses.replace(
        plain, tasks=tasks, experiences=experiences, input_shape=(1, 6, 6), name="toy images"
    )
