"""Demonstrations as sequences: a window of observations with the action at each step.

A sequence begins at every step of a demonstration and repeats the last step after the end, as
in robomimic and LIBERO. Each frame is stored once, even if several sequences contain it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clframe.data.dataset import IndexedData, Transform
from clframe.data.inputs import map_inputs, tensors_of
from clframe.data.observations import TASK, ObservationLayout
from clframe.data.storage import TensorSource, fetch
from clframe.robot.chunks import chunk_labels, sequence_rows
from clframe.robot.demonstrations import Demonstration
from clframe.robot.observation_windows import STATE, ObservationTransform, joined

Encode: TypeAlias = "Callable[[Tensor, str, int], Tensor]"
"""Frames ``[n, side, side, 3]`` as bytes, of which images and task, to features ``[n, ...]``."""


class SequenceInputs:
    """The inputs of a sequence policy: the stream's transform, with parts by name.

    Args:
        inputs: The transform of policies that take one vector: its normalizer, tasks and images.
        parts: The state's indices in each part.
        image_size: Side of an image in pixels.
    """

    window = 1
    """Observations per call while a policy acts; the policy remembers the others."""

    def __init__(
        self, inputs: ObservationTransform, parts: Mapping[str, Sequence[int]], image_size: int
    ) -> None:
        self.inputs, self.images = inputs, inputs.images
        self.parts = {name: torch.tensor(list(numbers)) for name, numbers in parts.items()}
        self.layout = ObservationLayout(
            self.images,
            image_size,
            {name: len(numbers) for name, numbers in parts.items()},
            inputs.tasks.shape[1],
        )

    def with_instruction(self, vector: NDArray[np.float32]) -> SequenceInputs:
        """Return a copy that uses this vector for every task."""
        inputs = copy.copy(self)
        inputs.inputs = self.inputs.with_instruction(vector)
        return inputs

    def __call__(self, x: Any, task: Tensor) -> dict[str, Tensor]:
        """Return the inputs for stored sequences and the task of each.

        Images stay bytes, with channels first; image features stay unchanged.
        """
        state = self.inputs.normalized(x[STATE])
        if next(iter(self.parts.values())).device != state.device:
            self.parts = {name: index.to(state.device) for name, index in self.parts.items()}
        return {
            **{name: state[..., index] for name, index in self.parts.items()},
            **{name: _channels_first(x[name]) for name in self.images},
            TASK: self.inputs.task_vectors(task),
        }


def _channels_first(images: Tensor) -> Tensor:
    return images.permute(0, 1, 4, 2, 3) if images.dtype == torch.uint8 else images


class SequenceData(IndexedData):
    """Sequences of frames; labels are the actions of all steps.

    Args:
        frames: All frames, one after the other.
        rows: The frames of each sequence, ``[n, steps]``.
        labels: Actions, ``[n, steps, numbers]``, or chunks of them at each step.
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
        """Return the stored sequences at these positions."""
        device = self.labels.device
        x = self.frames.to(device)
        rows = self.rows[positions]
        frames = fetch(x, rows.flatten().to(tensors_of(x)[0].device), device)
        return map_inputs(lambda t: t.unflatten(0, tuple(rows.shape)), frames)


def sequences_of(
    demos: Sequence[Demonstration],
    task: int,
    window: int,
    inputs: SequenceInputs,
    chunk: int = 1,
    encode: Encode | None = None,
) -> SequenceData:
    """Return one task's demonstrations as sequences.

    Args:
        demos: The demonstrations.
        task: The task's index.
        window: Steps of a sequence.
        inputs: The policy's inputs.
        chunk: Actions to predict at each step.
        encode: Computes image features, once per frame; None keeps the images.
    """
    lengths = [len(demo) for demo in demos]
    rows = sequence_rows(lengths, window)
    frames = {name: torch.from_numpy(joined(demos, name)) for name in (STATE, *inputs.images)}
    if encode is not None:
        frames |= {name: encode(frames[name], name, task) for name in inputs.images}
    actions = torch.from_numpy(np.concatenate([demo.actions for demo in demos]))
    if chunk > 1:
        actions = chunk_labels(actions, lengths, chunk)
    return SequenceData(
        TensorSource(frames), rows, actions[rows], torch.full((len(rows),), task), inputs
    )
