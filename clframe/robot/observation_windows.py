"""Demonstrations as training data: a window of observations in, the expert's action out."""

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
    """How numbers of a state become inputs of about unit size: ``(x - center) / scale``.

    A number that is exactly zero stays so: it is the padding of a thing that a task has not.

    Args:
        center: Per number.
        scale: Per number; infinity hides it.
    """

    center: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def of(cls, demos: Sequence[Demonstration], floor: float = 0.05) -> Normalizer:
        """Mean and deviation over demonstrations, the latter at least ``floor``."""
        return cls.of_states(np.concatenate([demo.observations[STATE] for demo in demos]), floor)

    @classmethod
    def of_states(cls, states: NDArray[Any], floor: float = 0.05) -> Normalizer:
        """Mean and deviation over states, the latter at least ``floor``."""
        deviation = np.maximum(states.std(0), floor)
        return cls(states.mean(0).astype(np.float32), deviation.astype(np.float32))

    @classmethod
    def of_pairs(
        cls, pairs: Sequence[tuple[float, float]], hidden: Sequence[int] = ()
    ) -> Normalizer:
        """Center and scale of each number; those at the places of ``hidden`` are not seen.

        >>> Normalizer.of_pairs([(0.0, 0.5), (1.0, 2.0)], hidden=[1]).scale
        array([0.5, inf], dtype=float32)
        """
        center, scale = np.array(pairs, np.float32).T
        scale[list(hidden)] = np.inf
        return cls(center, scale)


class ObservationTransform:
    """What the policy is given for stored windows of observations: the stream's transform.

    One vector: the state's windows, scaled and laid end to end, the task's vector (its number as a
    one-hot code, or its instruction), and then the images, flattened with channels first, as
    numbers in 0..1. (``model=policy`` with ``image=SIZE`` reshapes them.)

    Args:
        normalizer: Of the state; looked up with the first sample, since it may have to be read.
        state_size: Numbers of a state.
        tasks: One vector for each task.
        window: Observations in a window.
        images: Names of observations that are images, square and all of one size.
        image_size: Pixels of their side.
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
        seen = len(self.images) * window * 3 * image_size**2
        self.size = window * state_size + tasks.shape[1] + seen
        self.tasks = torch.from_numpy(tasks)
        self.coded = False
        self._look_up = normalizer
        self._normalizer: tuple[Tensor, Tensor] | None = None

    def with_task_code(self) -> ObservationTransform:
        """The same, with the task's one-hot code at the end, behind all else."""
        made = copy.copy(self)
        made.coded, made.size = True, self.size + len(self.tasks)
        return made

    def with_instruction(self, vector: NDArray[np.float32]) -> ObservationTransform:
        """The same, with this vector for whichever task."""
        made = copy.copy(self)
        made.tasks = torch.from_numpy(vector).to(self.tasks).expand(len(self.tasks), -1)
        return made

    def with_normalizer(self, normalizer: Callable[[], Normalizer]) -> ObservationTransform:
        """The same, with another normalizer of the state."""
        made = copy.copy(self)
        made._look_up, made._normalizer = normalizer, None
        return made

    def _normalizer_on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Center and factor, once for a device."""
        if self._normalizer is None or self._normalizer[0].device != device:
            normalizer = self._look_up()
            self._normalizer = (
                torch.from_numpy(normalizer.center).to(device),
                torch.from_numpy(1.0 / normalizer.scale).to(device),
            )
            self.tasks = self.tasks.to(device)
        return self._normalizer

    def normalized(self, state: Tensor) -> Tensor:
        """Numbers of the state in units of about one; what is not there stays zero."""
        center, factor = self._normalizer_on(state.device)
        normalized = ((state - center) * factor).clamp(-_CLIP, _CLIP)
        return normalized.masked_fill(state == 0, 0.0)

    def task_vectors(self, task: Tensor) -> Tensor:
        """The vector of each sample's task."""
        self._normalizer_on(task.device)
        return self.tasks[task]

    def __call__(self, x: Any, task: Tensor) -> Any:
        """Stored windows and the task of each to inputs."""
        normalized = self.normalized(x[STATE]).flatten(1)
        parts = [normalized, self.task_vectors(task)]
        parts += [_flattened(x[name]) for name in self.images]
        if self.coded:
            parts.append(functional.one_hot(task, len(self.tasks)).to(normalized.dtype))
        return torch.cat(parts, 1)


def _flattened(images: Tensor) -> Tensor:
    """Windows of images ``[n, window, h, w, 3]`` as rows of numbers in 0..1, channels first."""
    return images.permute(0, 1, 4, 2, 3).flatten(1).to(torch.float32).div_(255.0)


@dataclass
class Windowed:
    """Windows of several demonstrations: inputs by name and one action for each."""

    inputs: dict[str, Tensor] = field(default_factory=dict)
    actions: Tensor = field(default_factory=lambda: torch.empty(0))


def windowed(demos: Sequence[Demonstration], window: int, names: Sequence[str]) -> Windowed:
    """Every step with the observations up to it; before the first one, the first one again."""
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
    """One observation of several demonstrations, one after the other."""
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
    """Demonstrations of one task as training data.

    Labels are actions, chunks of so many of them, or numbers of choices.
    """
    samples = windowed(demos, inputs.window, (STATE, *inputs.images))
    labels = samples.actions[:, 0].long() if discrete else samples.actions
    if chunk > 1:
        labels = chunk_labels(labels, [len(demo) for demo in demos], chunk)
    return TensorData(samples.inputs, labels, task, transform=inputs)
