"""Two action values in one network, for methods that take the smaller of them."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from clframe.models.policy import ACTIVATIONS, Body


class Critics(nn.Module):
    """Two action values, as a stack of layers in which one product serves both.

    Args:
        n_inputs: Length of the policy's inputs.
        n_actions: Numbers of an action.
        body: How the hidden layers are made.
        n_tasks: How many heads, chosen by the code at the end of inputs; None for a shared one.
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
        # Scale and shift of the norm, where there is one.
        normed = widths[1:2] if body.layer_norm else []
        self.scales = nn.ParameterList(torch.empty(2, 1, width) for width in normed)
        self.shifts = nn.ParameterList(torch.empty(2, 1, width) for width in normed)
        self.reset()

    def reset(self) -> None:
        """Draw the weights anew, as those of linear layers are drawn."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            bound = 1 / math.sqrt(weight.shape[1])
            nn.init.uniform_(weight, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)
        for scale, shift in zip(self.scales, self.shifts, strict=True):
            nn.init.ones_(scale)
            nn.init.zeros_(shift)

    def forward(self, x: Tensor, action: Tensor, fixed: bool = False) -> Tensor:
        """Both values ``[2, n]``; ``fixed`` lets no gradient come to the weights."""

        def own(parameter: Tensor) -> Tensor:
            return parameter.detach() if fixed else parameter

        seen = x if self.n_tasks is None else x[:, : -self.n_tasks]
        hidden = torch.cat([seen, action], 1).expand(2, -1, -1)
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = torch.baddbmm(own(bias), hidden, own(weight))
            if number == len(self.weights) - 1:
                break
            if self.layer_norm and number == 0:
                normed = functional.layer_norm(hidden, hidden.shape[-1:])
                hidden = (normed * own(self.scales[0]) + own(self.shifts[0])).tanh()
            else:
                hidden = self.activate(hidden)
        if self.n_tasks is None:
            return hidden.squeeze(-1)
        return (hidden * x[:, -self.n_tasks :]).sum(-1)
