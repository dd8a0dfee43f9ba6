"""What is learned by acting, as data of core's training loop."""

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
    """Who acts when a batch is asked for; see :mod:`clframe.rl._collector`."""

    def batches(self, turns: Sequence[Task], n: int, size: int) -> Iterator[TransitionBatch]:
        """So many batches of tasks that are learned together."""


@dataclass(frozen=True)
class Pace:
    """How decisions and updates follow each other in an experience.

    Args:
        steps: Decisions.
        start_steps: Of these, before the first update.
        update_ratio: Updates per decision after that.
    """

    steps: int
    start_steps: int
    update_ratio: float

    def times(self, tasks: int) -> Pace:
        """That of so many tasks which are learned together."""
        return Pace(self.steps * tasks, self.start_steps * tasks, self.update_ratio)

    @property
    def updates(self) -> int:
        """Updates in an experience."""
        return math.floor((self.steps - self.start_steps) * self.update_ratio + 1e-9)

    def decisions_before(self, update: int) -> int:
        """Decisions made when an update is due, counted from 0.

        >>> [Pace(10, 4, 0.5).decisions_before(n) for n in range(3)]
        [6, 8, 10]
        >>> [Pace(10, 4, 2.0).decisions_before(n) for n in range(4)]
        [5, 5, 6, 6]
        """
        return self.start_steps + math.ceil((update + 1) / self.update_ratio - 1e-9)


class TransitionBatch(Batch):
    """A batch of transitions; ``x`` and ``next_x`` are inputs of the policy."""

    __slots__ = ("action", "next_x", "reward", "terminated")

    action: Tensor
    next_x: Tensor
    reward: Tensor
    terminated: Tensor

    def rows(self, places: Tensor) -> TransitionBatch:
        """Some of them."""
        some = TransitionBatch(self.x[places], self.y[places], self.task[places])
        for name in self.__slots__:
            setattr(some, name, getattr(self, name)[places])
        return some


class LiveData(Data):
    """What there is to learn in a task: nothing until the policy acts in it.

    Args:
        task: Whose environment it is.
        epoch_samples: Samples that the training loop takes for one epoch.
        outputs: Numbers of the policy's outputs, which are the labels.
    """

    on_all_ranks = True

    def __init__(self, task: Task, epoch_samples: int, outputs: int) -> None:
        self.task = task
        self.turns: tuple[Task, ...] = (task,)
        """Tasks that are learned together, in the order in which they are acted in."""
        self.epoch_samples = epoch_samples
        self.labels = torch.empty(0, outputs)
        self.tasks = torch.empty(0, dtype=torch.long)
        self.transform = inputs_of(task)
        self.interaction: Acting | None = None
        """Put here by the learner."""

    def __len__(self) -> int:
        return self.epoch_samples

    def gather(self, positions: Tensor) -> Any:
        """Refused: there are no samples before the policy has acted."""
        raise PluginError(
            f"task '{self.task.name}' is learned by acting in it, so it has no samples to choose "
            "from: leave out the plugin that asks for them"
        )

    def subset(self, positions: Tensor) -> Data:
        """Refused, as :meth:`gather` is."""
        refused: Data = self.gather(positions)
        return refused

    def to(self, device: torch.device) -> LiveData:
        """The same: batches are made on the learner's device."""
        return self

    def joined_with(self, others: Sequence[Data]) -> LiveData:
        """All tasks, acted in one after the other."""
        together = copy.copy(self)
        for other in others:
            if not isinstance(other, LiveData):
                raise PluginError(
                    f"task '{self.task.name}' is learned by acting in it, so other data cannot be "
                    "joined with its own: choose a method that acts within steps, such as replay"
                )
            together.turns += other.turns
        return together

    def batches(self, order: Tensor, batch_size: int) -> Iterator[Batch]:
        """Act and draw; of the order only its length counts."""
        assert self.interaction is not None
        return self.interaction.batches(self.turns, math.ceil(len(order) / batch_size), batch_size)
