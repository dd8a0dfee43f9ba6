"""Core's own way of learning an experience."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.core.plugin import Plugin
from clframe.hookspecs import hookimpl

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience
    from clframe.core.trainer import Budget
    from clframe.data.dataset import Data


class Loop(Plugin):
    """Learns an experience by the training loop on Lightning Fabric."""

    supports_batched_seeds = True

    @hookimpl(trylast=True)
    def fit_experience(
        self, learner: Learner, experience: Experience, data: Data, budget: Budget
    ) -> bool:
        """Train for the budget."""
        learner.engine.train(learner, experience, data, budget)
        return True
