"""How far a run is. Made by run.py; plugins read it through the learner.

The learner holds what learns (model, optimizer, plugins). The run state holds the progress.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from clframe.core.matrix import AccuracyMatrix
from clframe.evaluation.forgetting_tensor import ForgettingTensor
from clframe.utils.timing import Timing

if TYPE_CHECKING:
    from clframe.core.stream import Experience, Stream


@dataclass
class LoopProgress:
    """The progress of one call of the training loop.

    Args:
        total: Sum of the losses of the current epoch's steps.
        left: Steps left when the current epoch began; None for no limit.
        epochs: Finished epochs of this call.
        steps: Steps taken in the current epoch.
        seconds: Time spent in the current epoch.
        done: Whether the call has finished.
        started: When the current epoch began, minus the time it took before the run was resumed.
        before_save: Called before the run is saved; raises an error if a loss was not finite.
        per_epoch: Steps of a full epoch.
        planned: Steps of the whole call, as far as known in advance.
    """

    total: Tensor
    left: int | None = None
    epochs: int = 0
    steps: int = 0
    seconds: float = 0.0
    done: bool = False
    started: float = 0.0
    before_save: Callable[[], None] | None = None
    per_epoch: int = 0
    planned: int | None = None

    @property
    def taken(self) -> int:
        """Steps taken in this call."""
        return self.epochs * self.per_epoch + self.steps


class LoopCheckpointer(Protocol):
    """What the training loop reports to the checkpointer; see :mod:`clframe.checkpoint`."""

    @property
    def replaying(self) -> bool:
        """Whether hooks are being called again to reach the point where a resumed run stopped."""

    def on_loop_start(self, progress: LoopProgress) -> None:
        """Note that the loop begins; update ``progress`` if a resumed run was in it or past it."""

    def restore_epoch(self) -> None:
        """Restore the state of the epoch in which a resumed run stopped."""

    def after_step(self, progress: LoopProgress) -> None:
        """Save the run if it is time to; called after each step."""

    def on_loop_end(self, progress: LoopProgress) -> None:
        """Note that the loop has finished."""


class NoCheckpoints:
    """A checkpointer that saves nothing, for a learner that is not part of a run."""

    replaying = False

    def on_loop_start(self, progress: LoopProgress) -> None:
        """Nothing to restore."""

    def restore_epoch(self) -> None:
        """Nothing to restore."""

    def after_step(self, progress: LoopProgress) -> None:
        """Nothing to save."""

    def on_loop_end(self, progress: LoopProgress) -> None:
        """Nothing to save."""


@dataclass
class RunState:
    """How far a run is, and what it has measured so far.

    Args:
        matrix: One row per learned experience, filled by the run.
        tensor: What was measured under perturbations.
        timing: Seconds of training and evaluation.
        experience: The experience being learned, or the last one learned.
        seen: The experiences learned so far, in order.
        epoch: The epoch of the current experience, over all its loops.
        global_steps: Optimizer steps so far.
        samples: Samples of the experiences' own data so far.
        loop: The progress of the training loop during an epoch; None otherwise.
        curves: Per experience and task, the values measured during training.
        checkpointer: Saves the run while it learns.
        run_dir: The run folder; None if this process writes nothing.
    """

    matrix: AccuracyMatrix
    tensor: ForgettingTensor
    timing: Timing = field(default_factory=Timing)
    experience: Experience | None = None
    seen: list[Experience] = field(default_factory=list)
    epoch: int = 0
    global_steps: int = 0
    samples: int = 0
    loop: LoopProgress | None = None
    curves: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    checkpointer: LoopCheckpointer = field(default_factory=NoCheckpoints)
    run_dir: Path | None = None

    @classmethod
    def new(cls, stream: Stream) -> RunState:
        """Return the state of a run that has not started."""
        return cls(AccuracyMatrix(stream.columns), ForgettingTensor(stream.columns))
