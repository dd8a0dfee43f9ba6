"""Core's own way of learning an experience."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.hookspecs import hookimpl
from clframe.loop import train
from clframe.plugin import Plugin

if TYPE_CHECKING:
    from clframe.data import Data
    from clframe.experience import Experience
    from clframe.learner import Learner
    from clframe.loop import Budget


class Loop(Plugin):
    """Learns an experience by the training loop on Lightning Fabric."""

    together = True

    @hookimpl(trylast=True)
    def fit_experience(
        self, learner: Learner, experience: Experience, data: Data, budget: Budget
    ) -> bool:
        """Train for the budget."""
        train(learner, experience, data, budget)
        return True
