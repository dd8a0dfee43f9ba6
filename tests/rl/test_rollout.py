"""What a rollout holds, against steps that are done again, and what plugins make of it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from clframe import Plugin, hookimpl
from clframe.plugins.ewc import EWC
from clframe.plugins.mas import MAS
from clframe.plugins.si import SI
from clframe.robot.task import TRAINING, episode_seeds, seed_key
from clframe.testing import prepare, run_built
from clframe.worlds.point_robot import PointEnvironment

if TYPE_CHECKING:
    from clframe.core.learner import Learner

GAMMA, LAMBDA, ENVS, STEPS, HORIZON = 0.9, 0.8, 2, 17, 6


def acted(window: int = 2) -> Any:
    """A learner that has collected a rollout and begun to hand out its minibatches."""
    built = prepare(
        {"name": "point_robot", "n_tasks": 1, "horizon": HORIZON, "window": window},
        model={"name": "actor", "hidden": [8]},
        learner={
            **{"name": "ppo", "n_envs": ENVS, "n_steps": STEPS, "steps": 1},
            **{"gamma": GAMMA, "gae_lambda": LAMBDA, "n_epochs": 2},
        },
        batch_size=10,
        seed=4,
    )
    learner: Any = built.learner
    learner.plugins.hook.configure(learner=learner, stream=learner.stream)
    learner.engine.bind(learner)
    learner.begin(learner.stream.experiences[0])
    return learner


def test_a_rollout_is_what_the_environments_do_and_its_advantages_follow() -> None:
    learner = acted()
    task = learner.stream.tasks[0]
    evaluation = task.evaluation
    batches = list(learner.collector.batches(task))
    # Two passes over 34 decisions, each of which is in a pass once.
    assert [len(batch) for batch in batches] == [10, 10, 10, 4] * 2
    for number in range(2):
        passed = torch.cat([batch.y for batch in batches[4 * number : 4 * number + 4]])
        assert len(passed.unique(dim=0)) == ENVS * STEPS
    first = torch.cat([batch.y for batch in batches[:4]])
    second = torch.cat([batch.y for batch in batches[4:]])
    assert not torch.equal(first, second)
    rollout = {k: v.unflatten(0, (STEPS, ENVS)) for k, v in learner.collector.rollout.items()}
    key = (*seed_key(evaluation.robot, evaluation.goal_seed, TRAINING), 4, 0)

    def value(window: Any) -> float:
        x = evaluation.inputs({"state": torch.from_numpy(window[None])}, torch.tensor([0]))
        with torch.no_grad():
            return float(learner.value(x))

    for slot in range(ENVS):
        environment, episode, step = PointEnvironment(0, 1), 0, 0
        while step < STEPS:
            seed = episode_seeds(1, *key, slot, start=episode)[0]
            state = environment.reset(seed=seed)[0]["state"]
            window, deltas, start, over = np.stack([state, state]), [], step, False
            while step < STEPS and not over:
                assert np.array_equal(rollout["state"][step, slot].numpy(), window)
                action = rollout["drawn"][step, slot].tanh().numpy()
                seen, reward, terminated, _, _ = environment.step(action)
                before, window = value(window), np.stack([window[1], seen["state"]])
                step += 1
                over = terminated or step - start == HORIZON
                deltas.append(reward + GAMMA * value(window) * (not terminated) - before)
            # Equation 16: the discounted sum of what is left of the episode, or of the rollout.
            for place in range(len(deltas)):
                expected = sum((GAMMA * LAMBDA) ** k * d for k, d in enumerate(deltas[place:]))
                got = float(rollout["advantage"][start + place, slot])
                assert got == pytest.approx(expected, abs=1e-5)
                returns = float(rollout["returns"][start + place, slot])
                old = float(rollout["value"][start + place, slot])
                assert returns == pytest.approx(got + old, abs=1e-5)
            episode += 1
    # The probability of what was drawn, by the policy that has not moved since.
    for batch in batches:
        with torch.no_grad():
            outputs = learner.run_model(batch.x, batch.task)[0]
        law = torch.distributions.Normal(outputs[:, :2], outputs[:, 2:].exp())
        torch.testing.assert_close(batch.log_prob, law.log_prob(batch.y).sum(1))
        torch.testing.assert_close(learner.model.entropy(outputs), law.entropy().sum(1))


def test_a_rollout_is_left_when_the_policy_has_moved_too_far() -> None:
    learner = acted()
    object.__setattr__(learner.settings, "target_kl", 0.01)
    taken = []
    for batch in learner.collector.batches(learner.stream.tasks[0]):
        taken.append(batch)
        if len(taken) == 3:
            with torch.no_grad():
                learner.model.head.bias += 1.0
    assert len(taken) == 3
    assert learner.collector.updates == learner.collector.portions.updates


class Watch(Plugin):
    """Keeps the weights that each experience ends with."""

    name = "watch"

    def __init__(self) -> None:
        self.kept: list[dict[str, torch.Tensor]] = []

    @hookimpl
    def after_experience(self, learner: Learner) -> None:
        self.kept.append({k: v.detach().clone() for k, v in learner.state_dict().items()})


@functools.cache
def moved(name: str) -> tuple[float, float]:
    """How far the second task moves the actor's hidden layers and the value network."""
    watch = Watch()
    plugins = {"ewc": [EWC(weight=1e5)], "si": [SI(c=1e5)], "mas": [MAS(weight=1e5)]}
    built = prepare(
        {"name": "point_robot", "n_tasks": 2, "eval_episodes": 1, "horizon": 20},
        [*plugins.get(name, []), watch],
        {"name": "actor", "hidden": [8], "heads": "task", "activation": "tanh"},
        learner={
            **{"name": "ppo", "n_envs": 2, "n_steps": 32, "steps": 256, "n_epochs": 4},
            "reset": ["optimizers"],
        },
    )
    run_built(built)
    first, second = watch.kept

    def distance(part: str) -> float:
        names = [name for name in first if name.startswith(part)]
        return float(torch.cat([(second[n] - first[n]).flatten() for n in names]).norm())

    return distance("model.features"), distance("value")


@pytest.mark.parametrize("name", ["ewc", "si", "mas"])
def test_regularizers_hold_the_actor_and_not_the_value_network(name: str) -> None:
    (actor, value), (free, free_value) = moved(name), moved("naive")
    assert actor < 0.5 * free
    # Its gradient is clipped with the policy's, to which the penalty belongs, so it moves less.
    assert value > 0.3 * free_value
