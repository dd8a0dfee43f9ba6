"""Base class of plugins that replay generated inputs, labeled by the previous model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.core.protocols import linear_head
from clframe.errors import PluginError
from clframe.hookspecs import hookimpl
from clframe.models.vae import choose_likelihood
from clframe.plugins._past_targets import PastTargets
from clframe.utils.setting_checks import at_least, at_most, check_at_least

if TYPE_CHECKING:
    from clframe.core.learner import Learner


class _GeneratedReplay(Plugin):
    """Base of generative replay: counts past experiences and labels replayed inputs.

    A subclass makes ``targets`` in ``configure`` and passes the first batch of an experience to
    ``_check_inputs``. The subclasses document the arguments, which are settings of all of them.
    """

    capabilities = Capabilities(needs_class_labels=True, needs_boundaries=True)
    targets: PastTargets

    def __init__(
        self,
        distill: bool,
        temperature: float,
        replay_size: int | None,
        hidden: tuple[int, ...],
        latent: int,
        likelihood: str,
    ) -> None:
        self.distill = distill
        self.temperature = temperature
        self.replay_size = replay_size
        self.hidden = tuple(hidden)
        self.latent = latent
        self.likelihood = likelihood
        check_at_least(self, self.name, temperature=1e-6, replay_size=1, latent=1)
        at_most(temperature, 1e6, f"{self.name}.temperature")
        for units in self.hidden:
            at_least(units, 1, f"{self.name}.hidden")
        self.chosen = "" if likelihood == "auto" else likelihood
        self.past_experiences = 0
        self._inputs_checked = False

    @hookimpl
    def before_experience(self, learner: Learner) -> None:
        """Update the number of past experiences."""
        self.past_experiences = len(learner.seen)
        self._inputs_checked = False
        if learner.seen:
            self.targets.begin()

    def _check_inputs(self, x: Any) -> None:
        """Choose the likelihood from the first batch; reject inputs that cannot be generated."""
        self._inputs_checked = True
        self.chosen = choose_likelihood(self.chosen, x, f"plugin '{self.name}'")


def head_to_replay(model: nn.Module, who: str, advice: str) -> nn.Linear:
    """Return the head of a model that also has ``features``.

    Raises:
        PluginError: The model lacks one of them; the message names ``who`` and ends in ``advice``.
    """
    head = linear_head(model)
    if head is None:
        raise PluginError(
            f"{who} needs a model with 'features' and a linear 'head', which "
            f"{type(model).__name__} lacks: {advice}"
        )
    return head
