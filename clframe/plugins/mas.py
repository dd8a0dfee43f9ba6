"""Memory aware synapses: importance from how the outputs depend on a parameter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from clframe.errors import PluginError
from clframe.hookspecs import hookimpl
from clframe.plugins._per_sample import (
    Variant,
    choose_samples,
    evaluation_mode,
    mean_over_samples,
)
from clframe.plugins._quadratic import PenaltyStep, _ConvexPenalty
from clframe.utils.setting_checks import check_at_least

if TYPE_CHECKING:
    from clframe.core.learner import Learner
    from clframe.data.dataset import Batch, Data


class MAS(_ConvexPenalty):
    """Holds parameters near their old values, each as firmly as the outputs depend on it.

    Aljundi et al., eqs. 3 to 5: the importance is the mean over samples of
    ``|d ||f(x)||^2 / d theta_i|``, where ``f`` are the outputs that compete for the sample; no
    labels are used. The penalty is ``weight * sum_i Omega_i (theta_i - theta_i after the last
    experience)^2``.

    Args:
        weight: Strength of the penalty (lambda).
        accumulate: ``sum`` adds the importance of each experience, as in the paper; ``mean`` takes
            the mean over experiences.
        samples: How many of the experience's samples to use; None for all.
        batch_size: Samples at a time; None for that of training.
        memory: Megabytes that gradients of single samples may take at a time.
        step: Whether the penalty is a term of the loss (``gradient``, as in the paper) or an
            implicit step after the optimizer's (``proximal``), which no weight makes unstable.

    Example:
        ``clframe fit strategy=mas strategy.mas.weight=0.5``,
        or in Python (made ready here, not trained; ``clframe.fit`` takes the same):

        >>> from clframe.plugins import MAS
        >>> from clframe.testing import prepare
        >>> prepare("split_mnist", [MAS(weight=0.5)]).strategy
        'mas'
    """

    name = "mas"
    paper = "Aljundi et al., Memory aware synapses: learning what (not) to forget, 2018"

    def __init__(
        self,
        weight: float = 1.0,
        accumulate: Literal["sum", "mean"] = "sum",
        samples: int | None = None,
        batch_size: int | None = None,
        memory: int = 128,
        step: PenaltyStep = "gradient",
    ) -> None:
        super().__init__(step)
        self.weight = weight
        self.accumulate = accumulate
        self.samples = samples
        self.batch_size = batch_size
        self.memory = memory
        check_at_least(self, self.name, weight=0, samples=1, batch_size=1, memory=1)

    @property
    def factor(self) -> float:
        """The weight itself, as in the paper: there is no 1/2."""
        return self.weight

    @hookimpl
    def configure(self, learner: Learner) -> None:  # type: ignore[override]  # a hook's choice
        """Start with no anchor; refuse a model whose outputs are not all that it says."""
        super().configure()
        if learner.policy.steers:
            raise PluginError(
                f"plugin '{self.name}' holds what outputs depend on, but those of model.head=flow "
                "only steer the layers behind them, which it would not hold: choose ewc"
            )

    @hookimpl
    def after_experience(self, learner: Learner, data: Data) -> None:
        """Estimate the importance on the experience's data and move the anchor.

        Not after the stream's last experience: nothing would be held by it.
        """
        if not learner.has_next_experience:
            return
        new = self.importance(learner, data)
        # The running mean over n experiences moves by 1/n of the difference.
        share = 1.0 / len(learner.seen) if self.accumulate == "mean" else 1.0
        keep = 1.0 - share if self.accumulate == "mean" else 1.0
        old = self.quadratic.strength
        strength = {
            name: share * value + keep * old[name] if name in old else value
            for name, value in new.items()
        }
        self.quadratic.replace(strength, learner.named_trainable())

    def importance(self, learner: Learner, data: Data) -> dict[str, Tensor]:
        """The mean over samples of the absolute gradient of the squared output norm."""
        order = choose_samples(learner, data, self.samples)
        size = self.batch_size or learner.engine.settings.batch_size
        with evaluation_mode(learner):
            return mean_over_samples(
                learner, data, order, _squared_norm, _as_they_are, torch.abs, size, self.memory
            )


def _squared_norm(outputs: Tensor, batch: Batch) -> Tensor:
    """The squared length of the active outputs; masked ones hold the least number there is."""
    masked = outputs == torch.finfo(outputs.dtype).min
    return outputs.masked_fill(masked, 0.0).square().sum()


def _as_they_are(outputs: Any, batch: Batch) -> Iterator[Variant]:
    """One variant; labels play no part in the score."""
    yield batch.y, None
