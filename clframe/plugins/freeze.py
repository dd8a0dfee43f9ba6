"""Freeze a model's features: linear probing, and the base of internal replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from clframe.core.capabilities import Capabilities
from clframe.core.plugin import Plugin
from clframe.core.protocols import features_of
from clframe.errors import PluginError
from clframe.hookspecs import hookimpl
from clframe.utils.setting_checks import at_least

if TYPE_CHECKING:
    from clframe.core.learner import Learner


class Freeze(Plugin):
    """Frozen features after the first experiences; only the head continues to learn.

    Frozen features are in evaluation mode (dropout off, running statistics fixed) and cost no
    backward pass.

    Args:
        after: Experiences to learn the features on; 0 trains only the head from the start, a linear
            probe of a pre-trained (or random) model.

    Example:
        ``clframe fit strategy=freeze+replay``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

        >>> from clframe.plugins import Freeze
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [Freeze(after=1), "replay"]).strategy
        'freeze+replay'
    """

    name = "freeze"
    roles = ("parameters", "fixed weights")
    capabilities = Capabilities(frozen_features=True)

    def __init__(self, after: int = 1) -> None:
        at_least(after, 0, "freeze.after")
        self.after = after
        self.frozen = False
        self._stopping = False

    @hookimpl
    def configure(self, learner: Learner) -> None:
        """Find the features; once they are frozen, end the backward pass at their outputs."""
        features = features_of(learner.model)
        if features is None:
            raise PluginError(
                "plugin 'freeze' needs a model with 'features' and 'head', which "
                f"{type(learner.model).__name__} lacks"
            )
        self.features = features
        if self.after == 0:
            features.requires_grad_(False)

        # Do not use requires_grad: a parameter must not leave the optimizer during a run, or the
        # optimizer's saved state would no longer fit a continued run.
        # Stop gradients only in training, so that other plugins can still take them in between.
        def stop(module: nn.Module, inputs: Any, output: Tensor) -> Tensor | None:
            return output.detach() if self._stopping else None

        features.register_forward_hook(stop)

    @hookimpl(tryfirst=True)
    def before_experience(self, learner: Learner) -> None:
        """Freeze the features after enough experiences."""
        self.frozen = len(learner.seen) >= self.after

    @hookimpl
    def before_epoch(self) -> None:
        """Keep frozen features in evaluation mode."""
        self._stopping = self.frozen
        if self.frozen:
            self.features.eval()

    @hookimpl(tryfirst=True)
    def after_epoch(self) -> None:
        """Let gradients through again."""
        self._stopping = False

    @hookimpl(trylast=True)
    def after_backward(self) -> None:
        """Drop gradients that a penalty gave to frozen features, so that optimizers skip them."""
        if self.frozen:
            for parameter in self.features.parameters():
                parameter.grad = None
