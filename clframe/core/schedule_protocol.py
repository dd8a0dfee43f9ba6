"""What the training loop tells a learning-rate schedule (:mod:`clframe.training.lr_schedule`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from clframe.core.trainer import Budget


class Schedule(Protocol):
    """The learning rate of one learner's optimizer over a run."""

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
