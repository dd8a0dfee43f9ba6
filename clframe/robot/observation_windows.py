"""Demonstrations as training data: windows of observations with the expert's actions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from clframe.data.dataset import TensorData
from clframe.errors import DataError
from clframe.robot.chunks import chunk_labels
from clframe.robot.demonstrations import Demonstration
from clframe.robot.task import STATE as STATE

_CLIP = 5.0


@dataclass(frozen=True)
class Normalizer:
    """Scales the numbers of a state to about unit size: ``(x - center) / scale``.

    An exact zero stays zero: it pads the state of tasks with fewer objects.

    Args:
        center: One center per number.
        scale: One scale per number; infinity hides the number.
    """

    center: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def of(cls, demos: Sequence[Demonstration], floor: float = 0.05) -> Normalizer:
        """Return a normalizer by mean and deviation of demonstrations, at least ``floor``."""
        return cls.of_states(np.concatenate([demo.observations[STATE] for demo in demos]), floor)

    @classmethod
    def of_states(cls, states: NDArray[Any], floor: float = 0.05) -> Normalizer:
        """Return a normalizer by mean and deviation of states, at least ``floor``."""
        deviation = np.maximum(states.std(0), floor)
        return cls(states.mean(0).astype(np.float32), deviation.astype(np.float32))

    @classmethod
    def of_pairs(
        cls, pairs: Sequence[tuple[float, float]], hidden: Sequence[int] = ()
    ) -> Normalizer:
        """Return a normalizer from pairs of center and scale; ``hidden`` lists indices to hide.

        >>> Normalizer.of_pairs([(0.0, 0.5), (1.0, 2.0)], hidden=[1]).scale
        array([0.5, inf], dtype=float32)
        """
        center, scale = np.array(pairs, np.float32).T
        scale[list(hidden)] = np.inf
        return cls(center, scale)


class ObservationTransform:
    """The policy's inputs from stored windows of observations: the stream's transform.

    The input is one vector: the scaled states of the window, then the task's vector (a one-hot
    code or the instruction's vector), then the images, flattened with channels first, in 0..1.
    (``model=policy`` with ``image=SIZE`` reshapes them.)

    Args:
        normalizer: Returns the state's normalizer; called with the first sample, as it may read
            files.
        state_size: Numbers in a state.
        tasks: One vector for each task.
        window: Observations per window.
        images: Names of the image observations; all images are square and of one size.
        image_size: Side of an image in pixels.
    """

    def __init__(
        self,
        normalizer: Callable[[], Normalizer],
        state_size: int,
        tasks: NDArray[np.float32],
        window: int = 1,
        images: Sequence[str] = (),
        image_size: int = 0,
    ) -> None:
        self.window, self.images = window, tuple(images)
        self.state_size = state_size
        n_pixels = len(self.images) * window * 3 * image_size**2
        self.size = window * state_size + tasks.shape[1] + n_pixels
        self.tasks = torch.from_numpy(tasks)
        self.coded = False
        self._look_up = normalizer
        self._normalizer: tuple[Tensor, Tensor] | None = None

    def with_task_code(self) -> ObservationTransform:
        """Return a copy that appends the task's one-hot code to its vectors."""
        transform = copy.copy(self)
        transform.coded, transform.size = True, self.size + len(self.tasks)
        return transform

    def with_instruction(self, vector: NDArray[np.float32]) -> ObservationTransform:
        """Return a copy that uses this vector for every task."""
        transform = copy.copy(self)
        transform.tasks = torch.from_numpy(vector).to(self.tasks).expand(len(self.tasks), -1)
        return transform

    def with_normalizer(self, normalizer: Callable[[], Normalizer]) -> ObservationTransform:
        """Return a copy with another normalizer of the state."""
        transform = copy.copy(self)
        transform._look_up, transform._normalizer = normalizer, None
        return transform

    def _normalizer_on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return center and factor on a device, cached."""
        if self._normalizer is None or self._normalizer[0].device != device:
            normalizer = self._look_up()
            self._normalizer = (
                torch.from_numpy(normalizer.center).to(device),
                torch.from_numpy(1.0 / normalizer.scale).to(device),
            )
            self.tasks = self.tasks.to(device)
        return self._normalizer

    def normalized(self, state: Tensor) -> Tensor:
        """Return the normalized state; zeros (padding) stay zero."""
        center, factor = self._normalizer_on(state.device)
        normalized = ((state - center) * factor).clamp(-_CLIP, _CLIP)
        return normalized.masked_fill(state == 0, 0.0)

    def task_vectors(self, task: Tensor) -> Tensor:
        """Return the vector of each sample's task."""
        self._normalizer_on(task.device)
        return self.tasks[task]

    def __call__(self, x: Any, task: Tensor) -> Any:
        """Return the inputs for stored windows and the task of each."""
        normalized = self.normalized(x[STATE]).flatten(1)
        parts = [normalized, self.task_vectors(task)]
        parts += [_flattened(x[name]) for name in self.images]
        if self.coded:
            parts.append(functional.one_hot(task, len(self.tasks)).to(normalized.dtype))
        return torch.cat(parts, 1)


def _flattened(images: Tensor) -> Tensor:
    """Return windows of images ``[n, window, h, w, 3]`` as rows in 0..1, channels first."""
    return images.permute(0, 1, 4, 2, 3).flatten(1).to(torch.float32).div_(255.0)


@dataclass
class Windowed:
    """Windows of several demonstrations: inputs by name, and an action for each."""

    inputs: dict[str, Tensor] = field(default_factory=dict)
    actions: Tensor = field(default_factory=lambda: torch.empty(0))


def windowed(demos: Sequence[Demonstration], window: int, names: Sequence[str]) -> Windowed:
    """Return a window for every step; at the start, the first observation fills the window."""
    rows, starts = [], 0
    for demo in demos:
        steps = np.arange(len(demo))
        back = np.arange(window - 1, -1, -1)
        rows.append(starts + np.maximum(steps[:, None] - back[None], 0))
        starts += len(demo)
    index = np.concatenate(rows)
    inputs = {
        name: torch.from_numpy(np.ascontiguousarray(joined(demos, name)[index])) for name in names
    }
    actions = np.concatenate([demo.actions for demo in demos])
    return Windowed(inputs, torch.from_numpy(actions))


def joined(demos: Sequence[Demonstration], name: str) -> NDArray[Any]:
    """Concatenate one observation of several demonstrations."""
    for demo in demos:
        if name not in demo.observations:
            raise DataError(
                f"the demonstrations have no observation '{name}', only "
                f"{', '.join(demo.observations)}"
            )
    return np.concatenate([demo.observations[name] for demo in demos])


def data_of(
    demos: Sequence[Demonstration],
    task: int,
    inputs: ObservationTransform,
    discrete: bool = False,
    chunk: int = 1,
) -> TensorData:
    """Return one task's demonstrations as training data.

    Labels are actions, chunks of actions, or the numbers of choices.
    """
    samples = windowed(demos, inputs.window, (STATE, *inputs.images))
    labels = samples.actions[:, 0].long() if discrete else samples.actions
    if chunk > 1:
        labels = chunk_labels(labels, [len(demo) for demo in demos], chunk)
    return TensorData(samples.inputs, labels, task, transform=inputs)
