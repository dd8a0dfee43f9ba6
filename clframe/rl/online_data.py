"""Data for core's training loop that is learned by acting."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from clframe.data.dataset import Batch, Data
from clframe.errors import PluginError
from clframe.robot.evaluation import inputs_of

if TYPE_CHECKING:
    from clframe.core.stream import Task


class Acting(Protocol):
    """An object that acts when a batch is requested; see :mod:`clframe.rl._collector`."""

    def batches(self, turns: Sequence[Task], n: int, size: int) -> Iterator[TransitionBatch]:
        """Yield n batches of tasks that are learned together."""


@dataclass(frozen=True)
class Pace:
    """The schedule of decisions and updates in an experience.

    Args:
        steps: Number of decisions.
        start_steps: Decisions before the first update.
        update_ratio: Updates per decision after these.
    """

    steps: int
    start_steps: int
    update_ratio: float

    def times(self, tasks: int) -> Pace:
        """Return the pace for several tasks that are learned together."""
        return Pace(self.steps * tasks, self.start_steps * tasks, self.update_ratio)

    @property
    def updates(self) -> int:
        """Updates in an experience."""
        return math.floor((self.steps - self.start_steps) * self.update_ratio + 1e-9)

    def decisions_before(self, update: int) -> int:
        """Return the decisions made when an update is due, counted from 0.

        >>> [Pace(10, 4, 0.5).decisions_before(n) for n in range(3)]
        [6, 8, 10]
        >>> [Pace(10, 4, 2.0).decisions_before(n) for n in range(4)]
        [5, 5, 6, 6]
        """
        return self.start_steps + math.ceil((update + 1) / self.update_ratio - 1e-9)


class TransitionBatch(Batch):
    """A batch of transitions; ``x`` and ``next_x`` are the policy's inputs."""

    __slots__ = ("action", "next_x", "reward", "terminated")

    action: Tensor
    next_x: Tensor
    reward: Tensor
    terminated: Tensor

    def rows(self, places: Tensor) -> TransitionBatch:
        """Return the batch's transitions at some positions."""
        selected = TransitionBatch(self.x[places], self.y[places], self.task[places])
        for name in self.__slots__:
            setattr(selected, name, getattr(self, name)[places])
        return selected


class LiveData(Data):
    """The data of a task that is learned by acting; it has no samples before.

    Args:
        task: The task with the environment.
        epoch_samples: Samples that the training loop uses per epoch.
        outputs: Number of the policy's outputs, which are the labels.
    """

    on_all_ranks = True

    def __init__(self, task: Task, epoch_samples: int, outputs: int) -> None:
        self.task = task
        self.turns: tuple[Task, ...] = (task,)
        """Tasks that are learned together, in acting order."""
        self.epoch_samples = epoch_samples
        self.labels = torch.empty(0, outputs)
        self.tasks = torch.empty(0, dtype=torch.long)
        self.transform = inputs_of(task)
        self.interaction: Acting | None = None
        """Set by the learner."""

    def __len__(self) -> int:
        return self.epoch_samples

    def gather(self, positions: Tensor) -> Any:
        """Raise an error, because there are no samples before the policy has acted."""
        raise PluginError(
            f"task '{self.task.name}' is learned by acting, so it has no samples to choose from; "
            "remove the plugin that needs them"
        )

    def subset(self, positions: Tensor) -> Data:
        """Raise an error, as :meth:`gather` does."""
        refused: Data = self.gather(positions)
        return refused

    def to(self, device: torch.device) -> LiveData:
        """Return the data unchanged: batches are made on the learner's device."""
        return self

    def joined_with(self, others: Sequence[Data]) -> LiveData:
        """Return data for all tasks, which act in turn."""
        joined = copy.copy(self)
        for other in others:
            if not isinstance(other, LiveData):
                raise PluginError(
                    f"task '{self.task.name}' is learned by acting, so it cannot be joined with "
                    "other data; choose a method that acts within steps, such as replay"
                )
            joined.turns += other.turns
        return joined

    def batches(self, order: Tensor, batch_size: int) -> Iterator[Batch]:
        """Act and draw batches; only the length of the order matters."""
        assert self.interaction is not None
        return self.interaction.batches(self.turns, math.ceil(len(order) / batch_size), batch_size)
