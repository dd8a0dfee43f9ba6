"""Values of training steps that the loop logs: the loss, its terms, norms, learning rates.

Everything stays on the device until the step log reads it; see :mod:`clframe.recording.step_log`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.step import Step

TERMS = "terms/"
"""Prefix of the names of terms; a plugin's own name follows."""
TASK = "task"
"""The term of the current batch itself."""


class StepValues:
    """Logger of one learner's steps.

    With ``logging.log_every_n_steps`` every n-th step is logged. Without it, the mean of each term
    over an epoch is logged.

    Args:
        learner: The learner.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.log_every = learner.engine.logging.log_every_n_steps

    def log(self, loss: Tensor, step: Step | None) -> None:
        """Log a step before it is counted."""
        step_log = self.learner.step_log
        if step_log.sink is None:
            return
        if self.log_every is None:
            for name, value in terms(step):
                step_log.add_to_epoch(name, value, "mean", 1)
            return
        number = self.learner.global_step + 1
        if number % self.log_every:
            return
        step_log.add(number, "train/loss_step", loss)
        for name, value in terms(step):
            step_log.add(number, name, value)
        rate = self.learner.learning_rate
        if rate is not None:
            step_log.add(number, "train/lr", rate)


def terms(step: Step | None) -> Iterator[tuple[str, Tensor]]:
    """Yield the terms of a step's loss by name, if there are others than the current batch's.

    Values are as plugins gave them: a penalty as it is added, a batch's loss or a term of the
    weighted mean before its weight. A second term of the same plugin is ``terms/NAME_2``.
    """
    if step is None or not step.losses:
        return
    names = [*(part.source for part in step.parts[1:]), *step.term_names]
    values = [*step.losses[1:], *step.terms]
    if len(names) != len(values):
        return  # a plugin has computed the loss more than once
    yield TERMS + TASK, step.losses[0]
    counts: dict[str, int] = {}
    for name, value in zip(names, values, strict=True):
        counts[name] = number = counts.get(name, 0) + 1
        yield f"{TERMS}{name}" if number == 1 else f"{TERMS}{name}_{number}", value


def log_gradient_norm(learner: Learner, parameters: Sequence[nn.Parameter]) -> None:
    """Log the norm of all gradients together, if this step is logged."""
    every = learner.engine.logging.log_every_n_steps or 1
    if learner.step_log.sink is None or (learner.global_step + 1) % every:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    learner.log("train/grad_norm", nn.utils.get_total_norm(gradients))
