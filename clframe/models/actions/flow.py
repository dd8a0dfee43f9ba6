"""Actions as the end of a flow that starts from noise.

Lipman et al., Flow matching for generative modeling, 2023: with noise ``x0``, a demonstrated action
``x1`` and a time ``t`` drawn evenly from 0..1, the path ``x_t = (1 - t) x0 + t x1`` (their optimal
transport path, eq. 22, with the least deviation 0) has the velocity ``x1 - x0``, and a network
``v(x_t, t)`` that is regressed on it (eq. 23) carries the one distribution to the other.

The network predicts the end of the flow, ``e(x, t)``, and the velocity is ``(e - x) / (1 - t)``;
its squared error is weighted by ``1 - t``, which does not move the minimum. An action is therefore
as accurate as ``e``. Errors of a network that predicts the velocity itself have the size of the
noise, which is many times larger than an action's smaller numbers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

CONDITION = 128
"""Numbers that describe the policy's observation to the flow."""
_WIDTH = 256
_FREQUENCIES = 4


class ActionFlow(nn.Module):
    """Outputs are the condition of a flow, whose end a perceptron predicts from point and time.

    Args:
        numbers: Numbers in an action or a chunk.
        steps: Steps of Euler's method while acting.
    """

    def __init__(self, numbers: int, steps: int) -> None:
        super().__init__()
        self.numbers, self.steps = numbers, steps
        self.sizes = (CONDITION,)
        self.network = nn.Sequential(
            nn.Linear(CONDITION + numbers + 2 * _FREQUENCIES, _WIDTH),
            nn.SiLU(),
            nn.Linear(_WIDTH, _WIDTH),
            nn.SiLU(),
            nn.Linear(_WIDTH, numbers),
        )

    def velocity(self, outputs: Tensor, x: Tensor, t: Tensor) -> Tensor:
        """Return the velocity at points ``[..., numbers]`` and times ``[..., 1]`` before 1."""
        return (self.end(outputs, x, t) - x) / (1 - t)

    def end(self, outputs: Tensor, x: Tensor, t: Tensor) -> Tensor:
        """Predict the mean end of the flow through these points."""
        turns = math.pi * 2.0 ** torch.arange(_FREQUENCIES, device=t.device, dtype=t.dtype)
        angles = t * turns
        end: Tensor = self.network(torch.cat([outputs, x, angles.sin(), angles.cos()], -1))
        return end

    def losses(self, outputs: Tensor, actions: Tensor, there: Tensor | None) -> Tensor:
        """Return the velocity's weighted squared error at a point per path, summed over numbers."""
        # Uses dropout's generator, so that a resumed run continues with the same numbers.
        noise = torch.randn_like(actions)
        t = torch.rand_like(actions[..., :1])
        return self.losses_at(outputs, actions, there, noise, t)

    def losses_at(
        self, outputs: Tensor, actions: Tensor, there: Tensor | None, noise: Tensor, t: Tensor
    ) -> Tensor:
        """Return the losses with this noise and these times; ``there`` is 0 for padding."""
        x = torch.lerp(noise, actions, t)
        # (1 - t) (v - (x1 - x0))^2; 1 - t is at least the length of the last step.
        error = (self.end(outputs, x, t) - actions).square() / (1 - t).clamp(min=1 / self.steps)
        return (error if there is None else error * there).sum(-1)

    def act(self, outputs: Tensor, generator: torch.Generator) -> Tensor:
        """Follow the flow from noise in equal steps."""
        shape = (*outputs.shape[:-1], self.numbers)
        x = torch.randn(shape, generator=generator, device=outputs.device, dtype=outputs.dtype)
        for step in range(self.steps):
            t = torch.full((*shape[:-1], 1), step / self.steps, device=x.device, dtype=x.dtype)
            x = x + self.velocity(outputs, x, t) / self.steps
        return x
