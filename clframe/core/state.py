"""The state of a run beside the learner's own: made by run.py, read by plugins through the learner.

The learner holds what learns (model, optimizer, plugins); the run state holds how far the run is.
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
    """How far a call of the training loop has come.

    Args:
        total: Sum of the losses of the current epoch's steps.
        left: Steps left when the current epoch began; None for no limit.
        epochs: Epochs finished in this call.
        steps: Steps taken in the current epoch.
        seconds: Spent in the current epoch.
        done: Whether the call has come to its end.
        started: When the current epoch began, less what it took before the run was resumed.
        before_save: Called before the run is saved; raises if a loss was not finite.
        per_epoch: Steps of a whole epoch.
        planned: Steps of the whole call, as far as is known beforehand.
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
    """What the training loop tells whoever saves the run; see :mod:`clframe.checkpoint`."""

    @property
    def replaying(self) -> bool:
        """Whether hooks are called again on the way to where a resumed run was."""

    def on_loop_start(self, progress: LoopProgress) -> None:
        """The loop begins; where a resumed run was in it or past it, ``progress`` says so."""

    def restore_epoch(self) -> None:
        """The epoch in which the resumed run was has begun again: restore its state."""

    def after_step(self, progress: LoopProgress) -> None:
        """A step has been taken: save if it is time to."""

    def on_loop_end(self, progress: LoopProgress) -> None:
        """The loop has come to its end."""


class NoCheckpoints:
    """Saves nothing: the checkpointer of a learner that is not part of a run."""

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
        tensor: What was measured beside it under perturbations.
        timing: Seconds of training and evaluation.
        experience: The one that is being learned, or was learned last.
        seen: The experiences learned so far, in order.
        epoch: Of the current experience, over all loops in it.
        global_steps: Optimizer steps so far.
        samples: Samples of the experiences' own data so far.
        loop: How far the training loop is, between the begin and the end of an epoch; else None.
        curves: Per experience and task, the values measured during training.
        checkpointer: Who saves the run while it learns.
        run_dir: The run folder; None where nothing is written by this process.
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
        """The state of a run that has not begun."""
        return cls(AccuracyMatrix(stream.columns), ForgettingTensor(stream.columns))
