"""Actions as a mixture of diagonal Gaussians, as the policies of LIBERO have them."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional


class ActionMixture:
    """What outputs of ``modes * (2 * n_actions + 1)`` numbers mean: loss and way of acting.

    Outputs are, in this order, the means before tanh, the deviations before softplus (to which
    ``least_deviation`` is added) and the logits of the modes. Leading dimensions are samples, and
    steps where a policy answers at every step of a sequence.
    """

    n_actions: int
    modes: int
    sample: bool
    """Draw actions from the mixture instead of taking its most likely mode's mean."""
    least_deviation: float = 1e-4
    """Added to all deviations."""

    def mixture(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Means and deviations ``[..., modes, numbers]`` and the modes' log-probabilities."""
        split = self.modes * self.n_actions
        shape = (*outputs.shape[:-1], self.modes, self.n_actions)
        means = outputs[..., :split].reshape(shape).tanh()
        deviations = functional.softplus(outputs[..., split : 2 * split].reshape(shape))
        return means, deviations + self.least_deviation, outputs[..., 2 * split :].log_softmax(-1)

    def action_loss(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """The negative log-likelihood, mean over samples and steps."""
        means, deviations, modes = self.mixture(outputs)
        apart = (actions.unsqueeze(-2) - means) / deviations
        constant = 0.5 * self.n_actions * math.log(2 * math.pi)
        of_mode = -0.5 * apart.square().sum(-1) - deviations.log().sum(-1) - constant
        return -(modes + of_mode).logsumexp(-1).mean()

    def action_of(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """The mean of the most likely mode, or a draw."""
        means, deviations, modes = self.mixture(outputs)
        if self.sample:
            chosen = torch.multinomial(modes.exp(), 1, generator=generator).squeeze(1)
        else:
            chosen = modes.argmax(1)
        rows = torch.arange(len(outputs), device=outputs.device)
        action = means[rows, chosen]
        if self.sample:
            noise = torch.randn(action.shape, generator=generator, device=action.device)
            action = action + deviations[rows, chosen] * noise
        return action
