"""One update of soft actor-critic by hand: the networks of clframe, fused Adam, nothing else."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable

import torch
from sac_case import ACTIONS, BATCH, GAMMA, INPUTS, RATE, ROWS, TAU, serve
from torch import Tensor, nn
from torch.nn import functional


def actor_of(hidden: list[int]) -> nn.Sequential:
    """Means and log-deviations of actions."""
    widths = [INPUTS, *hidden]
    layers = [
        layer for pair in itertools.pairwise(widths) for layer in (nn.Linear(*pair), nn.ReLU())
    ]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 2 * ACTIONS))


def stack_of(n: int, widths: list[int]) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Weights and biases of a number of networks."""
    weights, biases = [], []
    for before, after in itertools.pairwise(widths):
        bound = 1 / math.sqrt(before)
        weights.append(nn.Parameter(torch.empty(n, before, after).uniform_(-bound, bound)))
        biases.append(nn.Parameter(torch.empty(n, 1, after).uniform_(-bound, bound)))
    return weights, biases


def run_stack(x: Tensor, weights: list[Tensor], biases: list[Tensor]) -> Tensor:
    """Outputs of all networks of a stack."""
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        x = functional.relu(torch.baddbmm(bias, x, weight))
    return torch.baddbmm(biases[-1], x, weights[-1])


def draw(outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions and their log-densities."""
    means, log_std = outputs.chunk(2, -1)
    log_std = log_std.clamp(-20.0, 2.0)
    action = (means + log_std.exp() * noise).tanh()
    density = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    return action, (density - (1 - action.square() + 1e-6).log()).sum(-1)


def random_columns() -> dict[str, Tensor]:
    """A memory of transitions."""
    return {
        "x": torch.randn(ROWS, INPUTS),
        "next_x": torch.randn(ROWS, INPUTS),
        "action": torch.rand(ROWS, ACTIONS) * 2 - 1,
        "reward": torch.randn(ROWS),
        "goes_on": torch.ones(ROWS),
    }


def make(hidden: list[int]) -> Callable[[int], int]:
    """Updates one after the other."""
    columns = random_columns()
    actor = actor_of(hidden)
    weights, biases = stack_of(2, [INPUTS + ACTIONS, *hidden, 1])
    critics = [*weights, *biases]
    targets = copy.deepcopy(critics)
    fixed = [p.detach() for p in weights], [p.detach() for p in biases]
    aims = (
        [p.detach() for p in targets[: len(weights)]],
        [p.detach() for p in targets[len(weights) :]],
    )
    flat_targets, flat_critics = [*aims[0], *aims[1]], [*fixed[0], *fixed[1]]
    log_alpha = nn.Parameter(torch.zeros(1))
    of_actor = torch.optim.Adam(actor.parameters(), RATE, fused=True)
    of_critics = torch.optim.Adam(critics, RATE, fused=True)
    of_alpha = torch.optim.Adam([log_alpha], RATE, fused=True)

    def values(x: Tensor, action: Tensor, stack: tuple[list[Tensor], list[Tensor]]) -> Tensor:
        joined = torch.cat([x, action], 1).expand(2, -1, -1)
        return run_stack(joined, *stack).squeeze(-1)

    def update() -> None:
        places = torch.randint(ROWS, (BATCH,))
        x, next_x, action, reward, goes_on = (
            column.index_select(0, places) for column in columns.values()
        )
        mine, density = draw(actor(x), torch.randn(BATCH, ACTIONS))
        alpha = log_alpha.detach().exp()
        of_alpha.zero_grad(set_to_none=True)
        (-(log_alpha * (density.detach() - ACTIONS)).mean()).backward()
        of_alpha.step()
        with torch.no_grad():
            following, after = draw(actor(next_x), torch.randn(BATCH, ACTIONS))
            future = values(next_x, following, aims).amin(0) - alpha * after
            target = reward + goes_on * GAMMA * future
        of_critics.zero_grad(set_to_none=True)
        apart = values(x, action, (weights, biases)) - target  # type: ignore[arg-type]
        (0.5 * apart.square().mean(1).sum()).backward()
        of_critics.step()
        with torch.no_grad():
            torch._foreach_lerp_(flat_targets, flat_critics, TAU)
        of_actor.zero_grad(set_to_none=True)
        (alpha * density - values(x, mine, fixed).amin(0)).mean().backward()
        of_actor.step()

    def block(n: int) -> int:
        for _ in range(n):
            update()
        return n

    return block


if __name__ == "__main__":
    serve(make)
