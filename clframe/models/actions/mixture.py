"""Actions as a mixture of diagonal Gaussians, as in LIBERO's policies."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.models.actions.head_settings import Rule


class GaussianMixture(nn.Module):
    """The loss and the way of acting for outputs of ``modes * (2 * numbers + 1)`` numbers.

    Outputs are, in this order, the means before tanh, the deviations before softplus (to which
    ``least_deviation`` is added; with an upper bound, before a sigmoid between both bounds) and the
    logits of the modes. Leading dimensions are samples and, for a policy that predicts at every
    step of a sequence, steps. A mode of a chunk is one way to continue through all of its steps.

    Args:
        numbers: Numbers in an action or a chunk.
        modes: Number of Gaussians in the mixture.
        least_deviation: Added to all deviations.
        rule: How to act.
        most_deviation: Upper bound of all deviations; None for none.
    """

    def __init__(
        self,
        numbers: int,
        modes: int,
        least_deviation: float,
        rule: Rule,
        most_deviation: float | None = None,
    ) -> None:
        super().__init__()
        self.numbers, self.modes = numbers, modes
        self.least_deviation, self.rule = least_deviation, rule
        self.most_deviation = most_deviation
        self.sizes = (modes * numbers, modes * numbers, modes)

    def mixture(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return means and deviations ``[..., modes, numbers]`` and modes' log-probabilities."""
        means, deviations, logits = outputs.split(self.sizes, -1)
        shape = (self.modes, self.numbers)
        spread = self._spread(deviations.unflatten(-1, shape))
        return means.unflatten(-1, shape).tanh(), spread, logits.log_softmax(-1)

    def _spread(self, outputs: Tensor) -> Tensor:
        if self.most_deviation is None:
            return functional.softplus(outputs) + self.least_deviation
        return (
            self.least_deviation + (self.most_deviation - self.least_deviation) * outputs.sigmoid()
        )

    def losses(self, outputs: Tensor, actions: Tensor, there: Tensor | None) -> Tensor:
        """Return each sample's negative log-likelihood; ``there`` is 0 for padding."""
        means, deviations, modes = self.mixture(outputs)
        difference = (actions.unsqueeze(-2) - means) / deviations
        of_number = -0.5 * difference.square() - deviations.log() - 0.5 * math.log(2 * math.pi)
        if there is not None:
            of_number = of_number * there.unsqueeze(-2)
        return -(modes + of_number.sum(-1)).logsumexp(-1)

    def act(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return the most likely mode's mean, a sample, or the mean of a sampled mode."""
        means, deviations, modes = self.mixture(outputs)
        if self.rule == "mode_mean":
            chosen = modes.argmax(1)
        else:
            chosen = torch.multinomial(modes.exp(), 1, generator=generator).squeeze(1)
        rows = torch.arange(len(outputs), device=outputs.device)
        action = means[rows, chosen]
        if self.rule == "draw":
            noise = torch.randn(action.shape, generator=generator, device=action.device)
            action = action + deviations[rows, chosen] * noise
        return action
