"""Measures the current tasks during training: the third index of LIBERO's c[i, j, e]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from clframe.core import hooks
from clframe.core.plugin import Plugin
from clframe.hookspecs import hookimpl
from clframe.utils.settings import at_least

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience


class Curves(Plugin):
    """Evaluates the tasks of the current experience before learning and every few epochs.

    Args:
        every_n_epochs: How often.
    """

    state = ("curves",)

    def __init__(self, every_n_epochs: int = 1) -> None:
        at_least(every_n_epochs, 1, "every_n_epochs")
        self.every_n_epochs = every_n_epochs
        self.curves: dict[str, dict[str, list[float]]] = {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore in place, since the learner shows the same mapping."""
        self.curves.clear()
        self.curves.update(state["curves"])

    @hookimpl
    def configure(self, learner: Learner) -> None:
        """Let the learner show the curves, for the results."""
        learner.curves = self.curves

    def measure(self, learner: Learner, experience: Experience) -> None:
        """Append one value for each task of the experience."""
        learner.eval()
        with learner.keeper.timing.measuring(), torch.inference_mode():
            for task in experience.tasks:
                value = next(iter(hooks.evaluate_task(learner, task).values()))
                self.curves.setdefault(experience.name, {}).setdefault(task.name, []).append(value)
        learner.train()

    @hookimpl(trylast=True)
    def before_experience(self, learner: Learner, experience: Experience) -> None:
        """The value before learning (epoch 0)."""
        self.measure(learner, experience)

    @hookimpl
    def after_epoch(self, learner: Learner, experience: Experience, epoch: int) -> None:
        """The value after every n-th epoch; phases after learning (pruning) are not part of it."""
        if (epoch + 1) % self.every_n_epochs == 0 and experience not in learner.seen:
            self.measure(learner, experience)
