"""Returns while soft actor-critic learns: clframe's and stable-baselines3's on one environment.

    python benchmarks/rl_curves.py --seeds 0 1 2 [--steps 3000] [--json FILE]

Both learn ``point_robot`` with one task, with the same inputs, widths, batch size and rates, and
``learner=sac``'s defaults. Every 300 decisions the policy's mean actions are done in 20 fixed
episodes of 40 steps; the table shows the mean return over seeds and, in brackets, the smallest and
the largest. The learners draw other random numbers, so curves agree within the spread of seeds and
not point by point; one update is compared number by number in ``tests/rl/test_parity.py``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from clframe import Plugin, hookimpl
from clframe.robot.evaluation import Evaluation
from clframe.robot.observation_windows import ObservationTransform
from clframe.robot.task import as_dictionary
from clframe.testing import prepare, run_built

EVERY, START, BATCH, WIDTHS, RATE = 300, 300, 64, [64, 64], 1e-3
Policy = Callable[[NDArray[np.float32]], NDArray[Any]]


def built(seed: int, steps: int, plugins: list[Plugin]) -> Any:
    """A run of clframe's."""
    return prepare(
        {"name": "point_robot", "n_tasks": 1},
        plugins,
        {"name": "actor", "hidden": WIDTHS},
        learner={"name": "sac", "steps": steps, "start_steps": START, "epoch_steps": EVERY},
        batch_size=BATCH,
        optimizer={"name": "adam", "lr": RATE},
        seed=seed,
    )


def inputs_of(evaluation: Evaluation) -> Policy:
    """What a policy is given for a state: the same for both learners."""
    transform = evaluation.inputs
    assert isinstance(transform, ObservationTransform)

    def inputs(state: NDArray[Any]) -> NDArray[np.float32]:
        raw = {"state": torch.from_numpy(np.asarray(state, np.float32))[None, None]}
        vector: NDArray[np.float32] = transform(raw, torch.zeros(1).long())[0].numpy()
        return vector

    return inputs


def mean_return(evaluation: Evaluation, policy: Policy) -> float:
    """Over the task's fixed episodes, each to its horizon."""
    environment, inputs, returns = evaluation.robot.environment(), inputs_of(evaluation), []
    for seed in evaluation.seeds:
        observation, _ = environment.reset(seed=seed)
        total = 0.0
        for _ in range(evaluation.horizon):
            action = policy(inputs(as_dictionary(observation)["state"]))
            observation, reward, *_ = environment.step(action)
            total += reward
        returns.append(total)
    return statistics.mean(returns)


class Curve(Plugin):
    """Measures clframe's policy after every epoch."""

    name = "curve"

    def __init__(self) -> None:
        self.values: list[float] = []

    @hookimpl
    def after_epoch(self, learner: Any) -> None:
        """One point."""
        model = learner.model

        @torch.no_grad()
        def act(x: NDArray[np.float32]) -> NDArray[Any]:
            action: NDArray[Any] = model.action_of(model(torch.from_numpy(x)[None]), None)[0]
            return np.asarray(action)

        self.values.append(mean_return(learner.stream.tasks[0].evaluation, act))


def ours(seed: int, steps: int) -> list[float]:
    """The curve of clframe's."""
    curve = Curve()
    run_built(built(seed, steps, [curve]))
    return curve.values


class Point(gymnasium.Env):
    """The task as stable-baselines3 takes it, with a new start each time."""

    def __init__(self, evaluation: Evaluation, seed: int) -> None:
        self.robot, self.inputs = evaluation.robot.environment(), inputs_of(evaluation)
        self.draw, self.horizon, self.steps = np.random.default_rng(seed), evaluation.horizon, 0
        size = len(self.inputs(np.zeros(4, np.float32)))
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, **_: Any) -> Any:
        """Begin an episode."""
        self.steps = 0
        observation, _ = self.robot.reset(seed=int(self.draw.integers(2**32)))
        return self.inputs(observation["state"]), {}

    def step(self, action: NDArray[Any]) -> Any:
        """One step; the horizon is no end of the task."""
        self.steps += 1
        observation, reward, _, _, info = self.robot.step(action)
        return self.inputs(observation["state"]), reward, False, self.steps >= self.horizon, info


def theirs(seed: int, steps: int) -> list[float]:
    """The curve of stable-baselines3's."""
    from stable_baselines3 import SAC

    evaluation = built(seed, steps, []).stream.tasks[0].evaluation
    model = SAC(
        "MlpPolicy",
        Point(evaluation, seed),
        learning_rate=RATE,
        batch_size=BATCH,
        learning_starts=START,
        ent_coef="auto_1.0",
        policy_kwargs={"net_arch": WIDTHS},
        seed=seed,
        device="cpu",
    )
    values: list[float] = []

    def after(local: dict[str, Any], _: Any) -> bool:
        done = local["self"].num_timesteps
        if done > START and (done - START) % EVERY == 0:
            values.append(
                mean_return(evaluation, lambda x: model.predict(x, deterministic=True)[0])
            )
        return True

    model.learn(steps, callback=after)
    return values


def main() -> None:
    """Learn with every seed and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--json", type=Path)
    words = parser.parse_args()
    torch.set_num_threads(1)
    curves: dict[str, list[list[float]]] = {}
    for name, learn in (("clframe", ours), ("stable-baselines3", theirs)):
        started = time.process_time()
        curves[name] = [learn(seed, words.steps) for seed in words.seeds]
        each = (time.process_time() - started) / len(words.seeds)
        print(f"{name}: {each:.0f} s of CPU a seed", flush=True)
    print(f"\n| decisions | {' | '.join(curves)} |\n| --- | --- | --- |")
    for point in range(min(len(curve) for seeds in curves.values() for curve in seeds)):
        cells = []
        for seeds in curves.values():
            values = [curve[point] for curve in seeds]
            cells.append(f"{statistics.mean(values):.1f} [{min(values):.1f}, {max(values):.1f}]")
        print(f"| {START + EVERY * (point + 1)} | {' | '.join(cells)} |")
    if words.json is not None:
        words.json.write_text(json.dumps(curves, indent=1) + "\n")


if __name__ == "__main__":
    main()
