"""Proximal policy optimisation, number by number as stable-baselines3 computes it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clframe.rl._rollout import RolloutBatch
from clframe.rl.ppo import generalized_advantages
from clframe.robot.observation_windows import Normalizer
from clframe.robot.stream import ImitationSettings, imitation_stream
from clframe.robot.task import RobotTask
from clframe.testing import prepare
from clframe.training.loop import SingleStepper
from tests.helpers import corridor

stable_baselines3 = pytest.importorskip("stable_baselines3")
gymnasium = pytest.importorskip("gymnasium")
from stable_baselines3.common.buffers import RolloutBuffer  # noqa: E402
from stable_baselines3.common.type_aliases import RolloutBufferSamples  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv  # noqa: E402

N, WIDTH, RATE, ROUNDS = 24, 16, 3e-3, 6
SETTINGS: dict[str, Any] = {
    **{"clip_range": 0.1, "ent_coef": 0.05, "vf_coef": 0.7, "gamma": 0.9, "gae_lambda": 0.8},
    "clip_range_vf": 0.3,
}
CLIP = 0.2


class Nothing(gymnasium.Env):  # type: ignore[misc,name-defined]
    """Only its spaces are looked at."""

    def __init__(self, n_inputs: int, action_space: Any) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (n_inputs,), np.float64)
        self.action_space = action_space


def ours(kind: str, tmp_path: Path) -> Any:
    # Without a mask, which they have not.
    choices = corridor.corridors(tmp_path, 1, masked=False)
    built = prepare(
        choices if kind == "choices" else {"name": "point_robot", "n_tasks": 1},
        model={"name": "actor", "hidden": [WIDTH, WIDTH], "activation": "tanh"},
        learner={"name": "ppo", "n_steps": 8, "steps": 8, **SETTINGS},
        optimizer={"name": "adam", "lr": RATE, "fused": False},
        gradient_clip_val=CLIP,
        batch_size=N,
    )
    learner: Any = built.learner.double()
    learner.engine.bind(learner)
    if kind == "numbers":
        # Their deviations do not depend on the state: so ours, if these weights are and stay 0.
        head, n = learner.model.head, learner.model.n_actions
        keep = torch.arange(2 * n) < n
        head.weight.data[n:] = 0
        head.weight.register_hook(lambda gradient: gradient * keep[:, None])
    return learner


def theirs(learner: Any, kind: str) -> Any:
    n = learner.stream.n_outputs
    spaces = gymnasium.spaces
    model = stable_baselines3.PPO(
        "MlpPolicy",
        Nothing(
            learner.stream.input_shape[0],
            spaces.Discrete(n) if kind == "choices" else spaces.Box(-1, 1, (n,), np.float64),
        ),
        learning_rate=RATE,
        n_steps=N,
        n_epochs=1,
        batch_size=N,
        max_grad_norm=CLIP,
        policy_kwargs={
            "net_arch": {"pi": [WIDTH, WIDTH], "vf": [WIDTH, WIDTH]},
            "optimizer_kwargs": {"eps": 1e-8},
        },
        seed=3,
        device="cpu",
        **SETTINGS,
    )
    model.policy.double()
    model.set_logger(stable_baselines3.common.logger.Logger(None, []))
    model._current_progress_remaining = 1.0
    return model


def linear(module: nn.Module) -> list[nn.Linear]:
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear)]


def pairs(learner: Any, model: Any) -> list[tuple[Tensor, Tensor, slice]]:
    """Our parameters, theirs, and which rows of ours they are."""
    policy, n = model.policy, learner.stream.n_outputs
    their = [*linear(policy.mlp_extractor.policy_net), policy.action_net]
    their += [*linear(policy.mlp_extractor.value_net), policy.value_net]
    mine = [*linear(learner.model), *linear(learner.value)]
    found = []
    for a, b in zip(mine, their, strict=True):
        rows = slice(0, b.out_features)
        found += [(a.weight, b.weight, rows), (a.bias, b.bias, rows)]
    if hasattr(policy, "log_std"):
        found.append((learner.model.head.bias, policy.log_std, slice(n, None)))
    return found


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a.detach(), b.detach(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["numbers", "choices"])
def test_losses_gradients_and_weights_are_those_of_stable_baselines3(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = ours(kind, tmp_path)
    model = theirs(learner, kind)
    # It would make 32 bits of what is observed.
    where = "stable_baselines3.common.policies.preprocess_obs"
    monkeypatch.setattr(where, lambda seen, *a, **k: seen)
    with torch.no_grad():
        for mine, their, rows in pairs(learner, model):
            their.copy_(mine[rows])
    draw = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    stepper = SingleStepper(learner, learner.stream.experiences[0].data)
    losses: dict[str, float] = {}
    monkeypatch.setattr(
        learner, "_log", lambda name, value: losses.update({name: float(value.detach())})
    )
    taken = gradients_of_step(learner)
    beyond = []
    for _ in range(ROUNDS):
        x, advantage, returns, value = (
            normal(N, learner.stream.input_shape[0]),
            normal(N),
            normal(N),
            normal(N),
        )
        task = torch.zeros(N, dtype=torch.long)
        with torch.no_grad():
            outputs = learner.run_model(x, task)[0]
            drawn = learner.model.sample(outputs, draw)
            log_prob = learner.model.log_prob(outputs, drawn) + 0.2 * normal(N)
        batch = RolloutBatch(x, drawn, task)
        batch.advantage, batch.returns, batch.value = advantage, returns, value
        batch.log_prob = log_prob
        stepper.step(batch)

        samples = RolloutBufferSamples(
            x,
            drawn if kind == "numbers" else drawn[:, None].double(),
            value,
            log_prob,
            advantage,
            returns,
        )
        monkeypatch.setattr(model.rollout_buffer, "get", lambda _, samples=samples: [samples])
        model.train()
        said = model.logger.name_to_value
        assert losses["policy_loss"] == pytest.approx(said["train/policy_gradient_loss"], abs=1e-6)
        assert losses["value_loss"] == pytest.approx(said["train/value_loss"], abs=1e-6)
        assert -losses["entropy"] == pytest.approx(said["train/entropy_loss"], abs=1e-6)
        assert losses["approx_kl"] == pytest.approx(said["train/approx_kl"], abs=1e-6)
        assert losses["clip_fraction"] == pytest.approx(said["train/clip_fraction"], abs=1e-6)
        beyond.append(losses["clip_fraction"])
        # As they were after clipping, and what they have moved.
        for mine, their, rows in pairs(learner, model):
            close(taken[mine][rows], their.grad)
            assert their.grad.abs().max() > 1e-5  # zeros would be equal, too
            close(mine[rows], their)
    assert 0 < min(beyond) <= max(beyond) < 1
    total = torch.stack([gradient.norm() for gradient in taken.values()]).norm()
    assert float(total) == pytest.approx(CLIP, rel=1e-4)  # so it was clipped, all together


def gradients_of_step(learner: Any) -> dict[Tensor, Tensor]:
    """Filled with what parameters have when the optimizers take their step."""
    seen: dict[Tensor, Tensor] = {}

    def record(optimizer: Any) -> None:
        step = optimizer.step

        def recording(*arguments: Any, **more: Any) -> Any:
            for group in optimizer.param_groups:
                seen.update({p: p.grad.clone() for p in group["params"]})
            return step(*arguments, **more)

        optimizer.step = recording

    record(learner.optimizer)
    record(learner.collector.optimizers["value"])
    return seen


def test_advantages_and_returns_are_those_of_their_buffer() -> None:
    steps, n, gamma, gae_lambda = 40, 3, 0.93, 0.8
    draw = np.random.default_rng(0)
    reward, value, of_last = draw.normal(size=(3, steps, n)).astype(np.float32)
    ended = draw.random((steps, n)) < 0.15
    terminated = ended & (draw.random((steps, n)) < 0.5)
    assert (ended & ~terminated).any()
    assert terminated.any()
    final = draw.normal(size=n).astype(np.float32)
    box = gymnasium.spaces.Box(-1, 1, (2,))
    buffer = RolloutBuffer(steps, box, box, "cpu", gae_lambda, gamma, n)
    begins = np.ones(n)
    for step in range(steps):
        # As their collect_rollouts does where an episode was cut off.
        cut = ended[step] & ~terminated[step]
        given = reward[step] + gamma * of_last[step] * cut
        buffer.add(
            np.zeros((n, 2)),
            np.zeros((n, 2)),
            given,
            begins,
            torch.from_numpy(value[step]),
            torch.zeros(n),
        )
        begins = ended[step].astype(np.float64)
    buffer.compute_returns_and_advantage(torch.from_numpy(final), begins)
    next_value = np.concatenate([value[1:], final[None]])
    next_value[ended] = of_last[ended]
    columns = {
        **{"reward": reward, "value": value, "next_value": next_value},
        **{"terminated": terminated.astype(np.float32), "ended": ended.astype(np.float32)},
    }
    happened = {name: torch.from_numpy(column) for name, column in columns.items()}
    mine = generalized_advantages(happened, gamma, gae_lambda)
    np.testing.assert_allclose(mine.numpy(), buffer.advantages, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(mine.numpy() + value, buffer.returns, rtol=1e-6, atol=1e-6)


# ---------------------------------------------------------------- whole rollouts


class Balanced:
    """CartPole, whose episodes follow from the number of the environment and their own."""

    def __init__(self) -> None:
        self.inner = gymnasium.make("CartPole-v1", max_episode_steps=30)
        self.observation_space = self.inner.observation_space
        self.action_space = self.inner.action_space
        self.number, self.episode = -1, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if self.number < 0:
            Balanced.made += 1
            self.number = Balanced.made
        self.episode += 1
        return self.inner.reset(seed=1000 * self.number + self.episode)

    def step(self, action: Any) -> Any:
        seen, reward, terminated, truncated, info = self.inner.step(action)
        return seen, reward, terminated, truncated, {**info, "success": False}

    made = 0


class BalancedEnv(Balanced, gymnasium.Env):  # type: ignore[misc,name-defined]
    """The same, by their class."""


def test_whole_rollouts_and_what_is_learned_of_them_are_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs, steps, rollouts = 4, 64, 3
    stream = imitation_stream(
        "balance",
        [RobotTask("balance", str(tmp_path), "", Balanced)],
        [0],
        ImitationSettings(horizon=30, num_envs=envs, num_workers=0, task_input="none"),
        tmp_path,
        state_size=4,
        action_size=2,
        normalizer=Normalizer(np.zeros(4, np.float32), np.ones(4, np.float32)),
    )
    settings = {**SETTINGS, "n_epochs": 3, "n_steps": steps, "ent_coef": 0.0}
    built = prepare(
        dataclasses.replace(stream, discrete=True),
        model={"name": "categorical", "hidden": [WIDTH, WIDTH], "activation": "tanh"},
        learner={"name": "ppo", "steps": 1, **settings},
        optimizer={"name": "adam", "lr": RATE, "fused": False},
    )
    learner: Any = built.learner
    model = stable_baselines3.PPO(
        "MlpPolicy",
        DummyVecEnv([BalancedEnv] * envs),
        learning_rate=RATE,
        batch_size=64,
        policy_kwargs={
            "net_arch": {"pi": [WIDTH, WIDTH], "vf": [WIDTH, WIDTH]},
            "optimizer_kwargs": {"eps": 1e-8},
        },
        device="cpu",
        **settings,
    )
    with torch.no_grad():
        for mine, their, rows in pairs(learner, model):
            their.copy_(mine[rows])

    # One and the same noise for both: which choice, and the order of a pass.
    draw = np.random.default_rng(0)

    def chosen(logits: Tensor) -> Tensor:
        return (
            logits + torch.from_numpy(draw.gumbel(size=logits.shape).astype(np.float32))
        ).argmax(-1)

    shuffled = np.random.default_rng(1).permutation
    Balanced.made = 0
    their_choice = "stable_baselines3.common.distributions.CategoricalDistribution.sample"
    monkeypatch.setattr(their_choice, lambda self: chosen(self.distribution.logits))
    monkeypatch.setattr(np.random, "permutation", shuffled)
    model.learn(rollouts * envs * steps)

    draw, shuffled = np.random.default_rng(0), np.random.default_rng(1).permutation
    Balanced.made = 0
    monkeypatch.setattr(type(learner.model), "sample", lambda self, outputs, _: chosen(outputs))

    def order(n: int, *key: int) -> Tensor:
        places = torch.from_numpy(shuffled(n))  # theirs go environment by environment
        return places % steps * envs + places // steps

    monkeypatch.setattr("clframe.rl._rollout.epoch_order", order)
    learner.collector._learner = learner
    learner.engine.bind(learner)
    learner.begin(learner.stream.experiences[0])
    data = learner.stream.experiences[0].data
    stepper = SingleStepper(learner, data)
    for _ in range(rollouts):
        for batch in data.batches(torch.arange(len(data)), 64):
            stepper.step(batch)
    buffer, rollout = model.rollout_buffer, learner.collector.rollout
    assert np.array_equal(
        rollout["drawn"].reshape(steps, envs, 1).numpy().swapaxes(0, 1).reshape(-1, 1),
        buffer.actions,
    )
    for mine, their in (
        (rollout["advantage"], buffer.advantages),
        (rollout["value"], buffer.values),
    ):
        np.testing.assert_allclose(
            mine.reshape(steps, envs).numpy().T.reshape(-1, 1),
            their.reshape(-1, 1),
            rtol=1e-3,
            atol=1e-3,
        )
    for mine, their, rows in pairs(learner, model):
        torch.testing.assert_close(mine[rows].detach(), their.detach(), rtol=1e-3, atol=1e-4)
