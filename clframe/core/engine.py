"""What core uses of training: the engine (:mod:`clframe.training.engine`) and the schedule."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import Tensor

if TYPE_CHECKING:
    from clframe.core.step import Step
    from clframe.core.stream import Experience
    from clframe.core.trainer import Budget, TrainerSettings
    from clframe.data.dataset import Batch, Data

T = TypeVar("T")


class SharedPass(Protocol):
    """Several processes that divide the model's pass among them."""

    valid_mask: Tensor | None
    """While this process's rows are in the model: 1 for each that counts, 0 for a repeated one."""
    global_rows: int
    """While rows are in the model: how many count on all processes together."""

    def run_parts(self, learner: Any, parts: list[Batch]) -> Step:
        """Put this process's share of all parts through the model and gather the outputs."""


class Engine(Protocol):
    """Device, precision and processes of one run."""

    settings: TrainerSettings

    @property
    def ranks(self) -> SharedPass | None:
        """The processes of this run; None where there is one."""

    @property
    def device(self) -> torch.device:
        """Where the learner and its data are stored."""

    @property
    def world_size(self) -> int:
        """How many processes learn this run."""

    def bind(self, learner: Any) -> None:
        """Move the learner to the device and make its optimizer."""

    def check_in_sync(self, learner: Any) -> None:
        """Check that all processes hold the same state."""

    def train(self, learner: Any, experience: Experience, data: Data, budget: Budget) -> None:
        """Run the training loop."""

    def backward(self, loss: Tensor) -> None:
        """Backward pass in the chosen precision."""

    def renew_optimizer(self, learner: Any) -> None:
        """Replace the learner's optimizer by a fresh one."""

    def batches(self, data: Data, order: Tensor, batch_size: int) -> Iterator[Batch]:
        """The global batches of an epoch in this order."""

    def share(self, order: Tensor) -> Tensor:
        """This process's part of an order, for work whose results are added up."""

    def sum(self, tensors: Mapping[str, Tensor]) -> None:
        """Add up, in place, what the processes have under each name."""

    def broadcast(self, value: T) -> T:
        """What the main process has."""

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Run a pass of the model in the chosen precision."""

    def precision_state(self) -> dict[str, Any]:
        """What the precision remembers from step to step."""

    def load_precision_state(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`precision_state` gave."""


class Schedule(Protocol):
    """A learning-rate schedule (:mod:`clframe.training.lr_schedule`)."""

    @property
    def lr(self) -> float:
        """The rate with which the last step was taken."""

    @property
    def follows_loss(self) -> bool:
        """Whether the rate depends on the losses, so that it differs from seed to seed."""

    def begin(self, n: int, budget: Budget) -> None:
        """A call of the training loop begins, on so many samples."""

    def begin_epoch(self) -> None:
        """The hooks before an epoch have been called."""

    def after_step(self) -> None:
        """The optimizer has taken a step."""

    def after_epoch(self, loss: float) -> None:
        """An epoch has come to its end, with this mean loss."""

    def state_dict(self) -> dict[str, Any]:
        """What has to be saved, as plain data."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` gave."""
