"""Memory aware synapses: importance is the sensitivity of the outputs to a parameter."""

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
    """Memory aware synapses: a penalty on moving parameters that the outputs depend on.

    Aljundi et al., eqs. 3 to 5: the importance is the mean over samples of
    ``|d ||f(x)||^2 / d theta_i|``, where ``f`` are the outputs that compete for the sample; no
    labels are used. The penalty is ``weight * sum_i Omega_i (theta_i - theta_i after the last
    experience)^2``.

    Args:
        weight: Strength of the penalty (lambda).
        accumulate: ``sum`` adds the importance of each experience, as in the paper; ``mean`` takes
            the mean over experiences.
        samples: How many of the experience's samples to use; None for all.
        batch_size: Samples at a time; None for the training batch size.
        memory: Megabytes that gradients of single samples may take at a time.
        step: Whether the penalty is a term of the loss (``gradient``, as in the paper) or an
            implicit step after the optimizer's (``proximal``), which no weight makes unstable.

    Example:
        ``clframe fit strategy=mas strategy.mas.weight=0.5``,
        or in Python (this only prepares the run; ``clframe.fit`` takes the same arguments):

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
        """Reset the anchor; raise an error if the outputs only steer later layers."""
        super().configure()
        if learner.policy.steers:
            raise PluginError(
                f"plugin '{self.name}' protects what the outputs depend on, but those of "
                "model.head=flow only steer later layers: choose ewc"
            )

    @hookimpl
    def after_experience(self, learner: Learner, data: Data) -> None:
        """Estimate the importance on the experience's data and move the anchor.

        The stream's last experience is skipped, because nothing is learned after it.
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
        """Return the mean over samples of the absolute gradient of the squared output norm."""
        order = choose_samples(learner, data, self.samples)
        size = self.batch_size or learner.engine.settings.batch_size
        with evaluation_mode(learner):
            return mean_over_samples(
                learner, data, order, _squared_norm, _as_they_are, torch.abs, size, self.memory
            )


def _squared_norm(outputs: Tensor, batch: Batch) -> Tensor:
    """Return the squared length of the active outputs; masked ones hold the lowest float."""
    masked = outputs == torch.finfo(outputs.dtype).min
    return outputs.masked_fill(masked, 0.0).square().sum()


def _as_they_are(outputs: Any, batch: Batch) -> Iterator[Variant]:
    """Yield one variant; labels play no part in the score."""
    yield batch.y, None
