"""What core needs from training: the engine (:mod:`clframe.training.engine`) and the schedule."""

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
    from clframe.evaluation.evaluation_settings import EvaluationSettings
    from clframe.recording.logging_settings import LoggingSettings

T = TypeVar("T")


class SharedPass(Protocol):
    """Several processes that share the forward pass."""

    valid_mask: Tensor | None
    """During a pass: 1 for each row of this process that counts, 0 for a repeated one."""
    global_rows: int
    """During a pass: how many rows count on all processes together."""

    def run_parts(self, learner: Any, parts: list[Batch]) -> Step:
        """Run this process's share of all parts through the model and gather the outputs."""


class Engine(Protocol):
    """Device, precision and processes of one run."""

    settings: TrainerSettings
    evaluation: EvaluationSettings
    logging: LoggingSettings

    @property
    def ranks(self) -> SharedPass | None:
        """The processes of this run; None if there is only one."""

    @property
    def device(self) -> torch.device:
        """The device of the learner and its data."""

    @property
    def world_size(self) -> int:
        """The number of processes of this run."""

    def bind(self, learner: Any) -> None:
        """Move the learner to the device and make its optimizer."""

    def check_in_sync(self, learner: Any) -> None:
        """Check that all processes hold the same state."""

    def train(self, learner: Any, experience: Experience, data: Data, budget: Budget) -> None:
        """Run the training loop."""

    def backward(self, loss: Tensor) -> None:
        """Run the backward pass in the chosen precision."""

    def renew_optimizer(self, learner: Any) -> None:
        """Replace the learner's optimizer with a fresh one."""

    def batches(self, data: Data, order: Tensor, batch_size: int) -> Iterator[Batch]:
        """Yield the global batches of an epoch in this order."""

    def share(self, order: Tensor) -> Tensor:
        """Return this process's part of an order, for work whose results are summed."""

    def sum(self, tensors: Mapping[str, Tensor]) -> None:
        """Sum the tensors of all processes in place, name by name."""

    def broadcast(self, value: T) -> T:
        """Return the main process's value."""

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context that runs the model in the chosen precision."""

    def precision_state(self) -> dict[str, Any]:
        """Return the state of mixed precision, such as the gradient scale."""

    def load_precision_state(self, state: dict[str, Any]) -> None:
        """Restore the state from :meth:`precision_state`."""


class Schedule(Protocol):
    """A learning-rate schedule (:mod:`clframe.training.lr_schedule`)."""

    @property
    def lr(self) -> float:
        """The learning rate of the last step."""

    @property
    def follows_loss(self) -> bool:
        """Whether the learning rate depends on the losses, so that it differs between seeds."""

    def begin(self, n: int, budget: Budget) -> None:
        """Start a call of the training loop on ``n`` samples."""

    def begin_epoch(self) -> None:
        """Start an epoch; called after the hooks before it."""

    def after_step(self) -> None:
        """Update the learning rate after a step of the optimizer."""

    def after_epoch(self, loss: float) -> None:
        """Update the learning rate after an epoch with this mean loss."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state to save, as plain data."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state from :meth:`state_dict`."""
