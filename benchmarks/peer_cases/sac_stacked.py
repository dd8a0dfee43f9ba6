"""The hand-written update for four seeds at once: every network is a stack, every product a bmm."""

from __future__ import annotations

from collections.abc import Callable

import torch
from sac_bare import draw, random_columns, run_stack, stack_of
from sac_case import ACTIONS, BATCH, GAMMA, INPUTS, RATE, ROWS, TAU, serve
from torch import Tensor, nn

SEEDS = 4


def make(hidden: list[int]) -> Callable[[int], int]:
    """Updates of all seeds together; each seed draws from a memory of its own."""
    each = [random_columns() for _ in range(SEEDS)]
    columns = {name: torch.cat([one[name] for one in each]) for name in each[0]}
    starts = torch.arange(SEEDS)[:, None] * ROWS
    actor = stack_of(SEEDS, [INPUTS, *hidden, 2 * ACTIONS])
    # The first critic of each seed, then the second of each.
    critics = stack_of(2 * SEEDS, [INPUTS + ACTIONS, *hidden, 1])
    fixed = [[p.detach() for p in part] for part in critics]
    aims = [[p.clone() for p in part] for part in fixed]
    log_alpha = nn.Parameter(torch.zeros(SEEDS, 1))
    of_actor = torch.optim.Adam([*actor[0], *actor[1]], RATE, fused=True)
    of_critics = torch.optim.Adam([*critics[0], *critics[1]], RATE, fused=True)
    of_alpha = torch.optim.Adam([log_alpha], RATE, fused=True)

    def values(x: Tensor, action: Tensor, weights: list[Tensor], biases: list[Tensor]) -> Tensor:
        joined = torch.cat([x, action], 2).repeat(2, 1, 1)
        return run_stack(joined, weights, biases).view(2, SEEDS, BATCH)

    def update() -> None:
        places = (torch.randint(ROWS, (SEEDS, BATCH)) + starts).flatten()
        x, next_x, action, reward, goes_on = (
            column.index_select(0, places).unflatten(0, (SEEDS, BATCH))
            for column in columns.values()
        )
        mine, density = draw(run_stack(x, *actor), torch.randn(SEEDS, BATCH, ACTIONS))  # type: ignore[arg-type]
        alpha = log_alpha.detach().exp()
        of_alpha.zero_grad(set_to_none=True)
        (-(log_alpha * (density.detach() - ACTIONS)).mean(1).sum()).backward()
        of_alpha.step()
        with torch.no_grad():
            outputs = run_stack(next_x, *actor)  # type: ignore[arg-type]
            following, after = draw(outputs, torch.randn(SEEDS, BATCH, ACTIONS))
            future = values(next_x, following, *aims).amin(0) - alpha * after
            target = reward + goes_on * GAMMA * future
        of_critics.zero_grad(set_to_none=True)
        apart = values(x, action, *critics) - target  # type: ignore[arg-type]
        (0.5 * apart.square().mean(2).sum()).backward()
        of_critics.step()
        with torch.no_grad():
            torch._foreach_lerp_([*aims[0], *aims[1]], [*fixed[0], *fixed[1]], TAU)
        of_actor.zero_grad(set_to_none=True)
        (alpha * density - values(x, mine, *fixed).amin(0)).mean(1).sum().backward()
        of_actor.step()

    def block(n: int) -> int:
        for _ in range(n // SEEDS):
            update()
        return n // SEEDS * SEEDS

    return block


if __name__ == "__main__":
    serve(make)
