"""Core's own way to learn an experience: the training loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.hookspecs import hookimpl
from clframe.training.loop import FitRequest, run_epochs

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.core.stream import Experience
    from clframe.core.trainer import Budget
    from clframe.data.dataset import Data


class Loop(Plugin):
    """Training loop of core on Lightning Fabric."""

    capabilities = Capabilities(batched_seeds=True)

    @hookimpl(trylast=True)
    def fit_experience(
        self, learner: Learner, experience: Experience, data: Data, budget: Budget
    ) -> bool:
        """Train for the budget."""
        run_epochs([FitRequest(learner, experience, data, budget)])
        return True
