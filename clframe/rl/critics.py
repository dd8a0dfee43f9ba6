"""Two action values in one network, for methods that take the smaller of them."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.models.policy import ACTIVATIONS, Body


class Critics(nn.Module):
    """Two action values as a stack of layers, in which one product computes both.

    Args:
        n_inputs: Length of the policy's inputs.
        n_actions: Numbers in an action.
        body: The configuration of the hidden layers.
        n_tasks: Number of heads, selected by the code at the end of inputs; None for a shared one.
    """

    def __init__(self, n_inputs: int, n_actions: int, body: Body, n_tasks: int | None) -> None:
        super().__init__()
        self.n_tasks, self.layer_norm = n_tasks, body.layer_norm
        self.activate = ACTIVATIONS[body.activation]()
        widths = [n_inputs + n_actions - (n_tasks or 0), *body.hidden, n_tasks or 1]
        self.weights = nn.ParameterList(
            torch.empty(2, before, after) for before, after in itertools.pairwise(widths)
        )
        self.biases = nn.ParameterList(torch.empty(2, 1, after) for after in widths[1:])
        # Scale and shift of the norm, if there is one.
        normed = widths[1:2] if body.layer_norm else []
        self.scales = nn.ParameterList(torch.empty(2, 1, width) for width in normed)
        self.shifts = nn.ParameterList(torch.empty(2, 1, width) for width in normed)
        self.stack: list[Tensor] = [*self.parameters()]
        """Weights, biases, scale and shift in this order. A list avoids looking up each module by
        name."""
        self.reset()

    def reset(self) -> None:
        """Draw new weights, as linear layers do."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            bound = 1 / math.sqrt(weight.shape[1])
            nn.init.uniform_(weight, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)
        for scale, shift in zip(self.scales, self.shifts, strict=True):
            nn.init.ones_(scale)
            nn.init.zeros_(shift)

    def forward(self, x: Tensor, action: Tensor, fixed: bool = False) -> Tensor:
        """Return both values ``[2, n]``; ``fixed`` stops gradients to the weights."""
        inputs = x if self.n_tasks is None else x[:, : -self.n_tasks]
        hidden = torch.cat([inputs, action], 1).expand(2, -1, -1)
        stack = [p.detach() for p in self.stack] if fixed else self.stack
        layers, activate = len(stack) // 2 - self.layer_norm, self.activate
        for number in range(layers):
            hidden = torch.baddbmm(stack[layers + number], hidden, stack[number])
            if number == layers - 1:
                break
            if self.layer_norm and number == 0:
                normed = functional.layer_norm(hidden, hidden.shape[-1:])
                hidden = (normed * stack[-2] + stack[-1]).tanh()
            else:
                hidden = activate(hidden)
        if self.n_tasks is None:
            return hidden.squeeze(-1)
        return (hidden * x[:, -self.n_tasks :]).sum(-1)
