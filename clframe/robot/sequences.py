"""Demonstrations as sequences: a window of observations in, the action at each of its steps out.

A sequence begins at every step of a demonstration; after the last step, the last one is repeated,
as in robomimic and LIBERO. Frames are stored once, however many sequences they are in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from clframe.data.dataset import IndexedData, Transform
from clframe.data.inputs import map_inputs, tensors_of
from clframe.data.observations import TASK, ObservationLayout
from clframe.data.storage import TensorSource, fetch
from clframe.robot.demonstrations import Demonstration
from clframe.robot.windows import STATE, ObservationTransform, joined

Encode: TypeAlias = "Callable[[Tensor, str], Tensor]"


class SequenceInputs:
    """What a policy for sequences is given: the stream's transform, in parts by name.

    Args:
        inputs: The same for policies that take one vector: gives normalizer, tasks and pictures.
        parts: Which numbers of the state each part has.
        picture_size: Pixels of a picture's side.
    """

    window = 1
    """Observations that a policy is given at a time while it acts; it remembers the others."""

    def __init__(
        self, inputs: ObservationTransform, parts: Mapping[str, Sequence[int]], picture_size: int
    ) -> None:
        self.inputs, self.pictures = inputs, inputs.pictures
        self.parts = {name: torch.tensor(list(numbers)) for name, numbers in parts.items()}
        self.layout = ObservationLayout(
            self.pictures,
            picture_size,
            {name: len(numbers) for name, numbers in parts.items()},
            inputs.tasks.shape[1],
        )

    def __call__(self, x: Any, task: Tensor) -> dict[str, Tensor]:
        """Stored sequences and the task of each to inputs.

        Pictures stay bytes, channels first; features of pictures stay as they are.
        """
        state = self.inputs.normalized(x[STATE])
        if next(iter(self.parts.values())).device != state.device:
            self.parts = {name: index.to(state.device) for name, index in self.parts.items()}
        return {
            **{name: state[..., index] for name, index in self.parts.items()},
            **{name: _channels_first(x[name]) for name in self.pictures},
            TASK: self.inputs.task_vectors(task),
        }


def _channels_first(pictures: Tensor) -> Tensor:
    return pictures.permute(0, 1, 4, 2, 3) if pictures.dtype == torch.uint8 else pictures


class SequenceData(IndexedData):
    """Sequences of frames; labels are the actions of all steps.

    Args:
        frames: All frames, one after the other.
        rows: Which of them each sequence is made of, ``[n, steps]``.
        labels: Actions, ``[n, steps, numbers]``.
        tasks: One task index per sequence.
        transform: Applied to each gathered batch.
    """

    columns = ("labels", "tasks", "rows")

    def __init__(
        self,
        frames: TensorSource,
        rows: Tensor,
        labels: Tensor,
        tasks: Tensor,
        transform: Transform,
    ) -> None:
        self.frames, self.rows, self.labels, self.tasks = frames, rows, labels, tasks
        self.transform = transform

    def gather(self, positions: Tensor) -> Any:
        """The stored sequences at these positions."""
        device = self.labels.device
        x = self.frames.to(device)
        rows = self.rows[positions]
        frames = fetch(x, rows.flatten().to(tensors_of(x)[0].device), device)
        return map_inputs(lambda t: t.unflatten(0, tuple(rows.shape)), frames)


def with_features(data: SequenceData, encode: Encode, what: str) -> SequenceData:
    """The same sequences, with what an encoder makes of their pictures.

    Args:
        data: With pictures.
        encode: Frames ``[n, side, side, 3]`` as bytes and their name to features ``[n, ...]``.
        what: The name of the data.
    """
    stored: Any = data.frames.to(data.frames.home)
    frames = {
        name: encode(frames, f"{what} {name}") if frames.dtype == torch.uint8 else frames
        for name, frames in stored.items()
    }
    return SequenceData(TensorSource(frames), data.rows, data.labels, data.tasks, data.transform)


def sequence_rows(lengths: Sequence[int], window: int) -> Tensor:
    """Which frames the sequences are made of, where demonstrations of these lengths follow.

    >>> sequence_rows([3, 1], 2).tolist()
    [[0, 1], [1, 2], [2, 2], [3, 3]]
    """
    rows, first = [], 0
    for length in lengths:
        steps = np.arange(length)[:, None] + np.arange(window)
        rows.append(first + np.minimum(steps, length - 1))
        first += length
    return torch.from_numpy(np.concatenate(rows))


def sequences_of(
    demos: Sequence[Demonstration], task: int, window: int, inputs: SequenceInputs
) -> SequenceData:
    """Demonstrations of one task as sequences."""
    rows = sequence_rows([len(demo) for demo in demos], window)
    frames = {name: torch.from_numpy(joined(demos, name)) for name in (STATE, *inputs.pictures)}
    actions = torch.from_numpy(np.concatenate([demo.actions for demo in demos]))
    return SequenceData(
        TensorSource(frames), rows, actions[rows], torch.full((len(rows),), task), inputs
    )
