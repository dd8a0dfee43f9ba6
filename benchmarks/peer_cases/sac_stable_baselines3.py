"""Updates of stable-baselines3's soft actor-critic: `train` with one gradient step, its default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from sac_case import ACTIONS, BATCH, GAMMA, INPUTS, RATE, ROWS, TAU, serve
from stable_baselines3 import SAC
from stable_baselines3.common.logger import Logger


class Nothing(gymnasium.Env):
    """Only its spaces are looked at."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (INPUTS,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (ACTIONS,), np.float32)


def make(hidden: list[int]) -> Callable[[int], int]:
    """A model with a filled memory."""
    model = SAC(
        "MlpPolicy", Nothing(), RATE, ROWS, batch_size=BATCH, tau=TAU, gamma=GAMMA,
        policy_kwargs={"net_arch": hidden}, seed=0, device="cpu",
    )  # fmt: skip
    model.set_logger(Logger(None, []))
    draw = np.random.default_rng(0)
    buffer: Any = model.replay_buffer
    for _ in range(ROWS):
        x, next_x = draw.standard_normal((2, 1, INPUTS))
        action = draw.uniform(-1, 1, (1, ACTIONS))
        buffer.add(x, next_x, action, draw.standard_normal(1), np.zeros(1), [{}])

    def block(n: int) -> int:
        for _ in range(n):
            model.train(1, BATCH)
        return n

    return block


if __name__ == "__main__":
    serve(make)
