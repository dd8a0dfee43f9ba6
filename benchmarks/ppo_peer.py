"""Learning curves of ``learner=ppo`` and of stable-baselines3, on the same environments.

    python benchmarks/ppo_peer.py --seeds 0 1 2 3 4 [--steps 16384] [--tasks cartpole point]

Both have the same settings and first weights (stable-baselines3's, copied); seeds of episodes and
draws are each one's own. ``cartpole`` is Gymnasium's CartPole-v1 (choices); ``point`` is task 0 of
``stream=point_robot`` (numbers), where stable-baselines3 acts through a tanh, as our policy does,
and its deviations do not depend on the state, as ours do. Printed are the mean return of the
episodes that ended in each quarter of the decisions, over seeds, with the deviation between
seeds, and the CPU time of a run.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import nn

from clframe.robot.observation_windows import Normalizer
from clframe.robot.stream import ImitationSettings, imitation_stream
from clframe.robot.task import RobotTask
from clframe.testing import prepare, run_built
from clframe.worlds.point_robot import PointEnvironment

ENVS, WIDTH, RATE, HORIZON = 4, 64, 1e-3, 40
SETTINGS: dict[str, Any] = {
    **{"n_steps": 128, "n_epochs": 10, "gamma": 0.98, "gae_lambda": 0.9},
    **{"clip_range": 0.2, "ent_coef": 0.0, "vf_coef": 0.5},
}
episodes: list[tuple[int, float]] = []
"""Steps and returns of those that came to their end, in this order."""


class Recorded:
    """An environment that tells the returns of its episodes; both libraries act in the same one.

    Args:
        task: ``cartpole`` or ``point``.
    """

    def __init__(self, task: str) -> None:
        self.task = task
        if task == "cartpole":
            self.inner: Any = gymnasium.make("CartPole-v1")
            self.action_space: Any = self.inner.action_space
        else:
            self.inner = PointEnvironment(0, 1)
            self.action_space = gymnasium.spaces.Box(-1, 1, (2,))
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,))
        self.total, self.steps = 0.0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode."""
        self.total, self.steps = 0.0, 0
        return _vector(self.inner.reset(seed=seed)[0]), {}

    def step(self, action: Any) -> Any:
        """One step; an episode has an end in any case."""
        seen, reward, terminated, truncated, info = self.inner.step(action)
        self.total, self.steps = self.total + reward, self.steps + 1
        truncated = truncated or (self.task == "point" and self.steps >= HORIZON)
        if terminated or truncated:
            episodes.append((self.steps, self.total))
        return _vector(seen), reward, terminated, truncated, {"success": bool(truncated), **info}


def _vector(seen: Any) -> Any:
    return np.asarray(seen["state"] if isinstance(seen, dict) else seen, np.float32)


class Squashed(gymnasium.Env):
    """The same for stable-baselines3: numbers go through a tanh instead of being cut off."""

    def __init__(self, task: str) -> None:
        self.recorded = Recorded(task)
        self.observation_space = self.recorded.observation_space
        self.action_space = self.recorded.action_space
        if task == "point":
            self.action_space = gymnasium.spaces.Box(-100, 100, (2,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode."""
        return self.recorded.reset(seed=seed)

    def step(self, action: Any) -> Any:
        """One step."""
        return self.recorded.step(np.tanh(action) if self.recorded.task == "point" else action)


def theirs(task: str, seed: int) -> Any:
    """Stable-baselines3's, not trained yet."""
    return stable_baselines3.PPO(
        "MlpPolicy",
        DummyVecEnv([functools.partial(Squashed, task)] * ENVS),
        learning_rate=RATE,
        batch_size=64,
        policy_kwargs={
            "net_arch": {"pi": [WIDTH, WIDTH], "vf": [WIDTH, WIDTH]},
            "optimizer_kwargs": {"eps": 1e-8},
        },
        seed=seed,
        device="cpu",
        **SETTINGS,
    )


def ours(task: str, seed: int, steps: int, peer: Any, folder: Path) -> Any:
    """Our own with the peer's weights, not trained yet."""
    stream = imitation_stream(
        task,
        [RobotTask(task, f"{task}-{seed}", "", functools.partial(Recorded, task))],
        [0],
        # One short evaluation: it is the episodes of training that are looked at.
        ImitationSettings(
            eval_episodes=1,
            horizon=500 if task == "cartpole" else HORIZON,
            num_envs=ENVS,
            num_workers=0,
            task_input="none",
        ),
        folder,
        state_size=4,
        action_size=2,
        normalizer=Normalizer(np.zeros(4, np.float32), np.ones(4, np.float32)),
    )
    stream = dataclasses.replace(stream, discrete=task == "cartpole")
    learner: Any = prepare(
        stream,
        "naive",
        {"name": "actor", "hidden": [WIDTH, WIDTH], "activation": "tanh"},
        learner={"name": "ppo", "steps": steps, **SETTINGS},
        optimizer={"name": "adam", "lr": RATE},
        seed=seed,
    )
    policy = peer.policy
    their = [*_linear(policy.mlp_extractor.policy_net), policy.action_net]
    their += [*_linear(policy.mlp_extractor.value_net), policy.value_net]
    mine = [*_linear(learner.learner.model), *_linear(learner.learner.value)]
    with torch.no_grad():
        for a, b in zip(mine, their, strict=True):
            a.weight[: b.out_features] = b.weight
            a.bias[: b.out_features] = b.bias
            a.weight[b.out_features :] = 0
            a.bias[b.out_features :] = 0
    return learner


def _linear(module: nn.Module) -> list[nn.Linear]:
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear)]


def quarters(found: list[tuple[int, float]]) -> list[float]:
    """The mean return of the episodes that ended in each quarter of the steps."""
    steps, totals = np.array(found).T
    place = np.cumsum(steps) / steps.sum()
    return [float(totals[np.ceil(4 * place) == quarter].mean()) for quarter in (1, 2, 3, 4)]


def curve(task: str, seed: int, steps: int, who: str) -> tuple[list[float], float]:
    """Mean returns of one run by quarter, and its CPU time."""
    torch.manual_seed(seed)
    peer = theirs(task, seed)
    with tempfile.TemporaryDirectory() as folder:
        built = ours(task, seed, steps, peer, Path(folder))
        episodes.clear()
        started = time.process_time()
        if who == "clframe":
            run_built(built)
            del episodes[0], episodes[-1]  # those that measure the policy before and after
        else:
            peer.learn(steps)
        return quarters(episodes), time.process_time() - started


def main() -> None:
    """Run both and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--steps", type=int, default=16_384)
    parser.add_argument("--tasks", nargs="+", default=["cartpole", "point"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("| task | who | quarter 1 | 2 | 3 | 4 | CPU |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for task in given.tasks:
        for who in ("clframe", "stable-baselines3"):
            found = [curve(task, seed, given.steps, who) for seed in given.seeds]
            cells = [
                f"{statistics.mean(column):.1f} ± {statistics.stdev(column):.1f}"
                for column in zip(*(values for values, _ in found), strict=True)
            ]
            seconds = statistics.mean(seconds for _, seconds in found)
            print(f"| {task} | {who} | {' | '.join(cells)} | {seconds:.0f} s |", flush=True)


if __name__ == "__main__":
    main()
