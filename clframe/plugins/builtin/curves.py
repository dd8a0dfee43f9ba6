"""Measures the current tasks during training: the third index of LIBERO's c[i, j, e]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import torch

from clframe.core import hooks
from clframe.core.plugin import Plugin
from clframe.hookspecs import hookimpl
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.context import RunContext
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience


class Curves(Plugin):
    """Learning curves of the current experience's tasks, measured every few epochs.

    Args:
        every_n_epochs: Interval in epochs.
    """

    def __init__(self, every_n_epochs: int = 1) -> None:
        at_least(every_n_epochs, 1, "every_n_epochs")
        self.every_n_epochs = every_n_epochs

    @classmethod
    def for_run(cls, context: RunContext) -> Self | None:
        """Return the plugin only if the run is evaluated during training."""
        every = context.evaluation.check_val_every_n_epoch
        return None if every is None else cls(every)

    def measure(self, learner: Learner, experience: Experience) -> None:
        """Append one value for each task of the experience."""
        learner.eval()
        with learner.state.timing.measuring(), torch.inference_mode():
            for task in experience.tasks:
                value = float(next(iter(hooks.evaluate_task(learner, task).values())))
                curves = learner.curves.get(experience.name, {})
                # Replace the list: a checkpoint in memory shares the old one.
                curve = [*curves.get(task.name, []), value]
                learner.curves[experience.name] = {**curves, task.name: curve}
        learner.train()

    @hookimpl(trylast=True)
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """Measure before learning (epoch 0)."""
        self.measure(learner, experience)

    @hookimpl
    def after_epoch(self, learner: Learner, experience: Experience, epoch: int) -> None:
        """Measure after every n-th epoch; phases after learning (pruning) do not count."""
        if (epoch + 1) % self.every_n_epochs == 0 and experience not in learner.seen:
            self.measure(learner, experience)
